//! The values of statements, and the columns of rows.

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A text: `TEXT`.
    Text(&'a str),
    /// Bytes: `BYTEA`, `VARBINARY`, `BLOB`.
    Bytes(&'a [u8]),
    /// An integer of 64 bits: `BIGINT`.
    Integer(i64),
    /// A floating-point number of 64 bits: `DOUBLE PRECISION`.
    Float(f64),
}

/// How a column is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// As a text.
    Text,
    /// As bytes.
    Bytes,
    /// As an integer of 64 bits.
    Integer,
    /// As a floating-point number of 64 bits.
    Float,
}

/// A column of a row that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// NULL.
    Null,
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
}

macro_rules! field {
    ($variant:ident, $type:ty) => {
        impl From<Option<$type>> for Field {
            fn from(value: Option<$type>) -> Self {
                value.map_or(Self::Null, Self::$variant)
            }
        }
    };
}

field!(Text, String);
field!(Bytes, Vec<u8>);
field!(Integer, i64);
field!(Float, f64);
