//! Statements as data: a text, and which values it binds.

use crate::sql::driver::Value;

/// A statement, and the values that it binds in their order.
#[derive(Debug)]
pub struct FixedStatement {
    /// The text.
    pub text: &'static str,
    slots: &'static [Placeholder],
}

/// The place of a value in a statement.
#[derive(Debug, Clone, Copy)]
pub enum Placeholder {
    /// The key.
    Key,
    /// The key as bytes, for a column of bytes.
    KeyBytes,
    /// The stored record.
    Expected,
    /// The new record.
    New,
    /// The time to live in microseconds.
    Micros,
    /// The limit of bytes or rows.
    Limit,
}

/// The values of a statement by their names. A statement does not bind all of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parameters<'a> {
    key: &'a str,
    expected: &'a [u8],
    new: &'a [u8],
    micros: i64,
    limit: i64,
}

impl<'a> Parameters<'a> {
    /// The values of the statements on the row of `key`.
    pub fn new(key: &'a str) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    /// The stored record.
    #[must_use]
    pub fn expected(self, expected: &'a [u8]) -> Self {
        Self { expected, ..self }
    }

    /// The new record.
    #[must_use]
    pub fn with(self, new: &'a [u8]) -> Self {
        Self { new, ..self }
    }

    /// The time to live.
    #[must_use]
    pub fn micros(self, micros: i64) -> Self {
        Self { micros, ..self }
    }

    /// The limit of bytes or rows.
    #[must_use]
    pub fn limit(self, limit: impl Into<i64>) -> Self {
        let limit = limit.into();
        Self { limit, ..self }
    }
}

impl FixedStatement {
    /// A statement that binds these values.
    pub const fn new(text: &'static str, slots: &'static [Placeholder]) -> Self {
        Self { text, slots }
    }

    /// The values that the statement binds, in their order.
    pub fn values<'a>(&'static self, values: Parameters<'a>) -> impl Iterator<Item = Value<'a>> {
        self.slots.iter().map(move |slot| match slot {
            Placeholder::Key => Value::Text(values.key),
            Placeholder::KeyBytes => Value::Bytes(values.key.as_bytes()),
            Placeholder::Expected => Value::Bytes(values.expected),
            Placeholder::New => Value::Bytes(values.new),
            Placeholder::Micros => Value::Integer(values.micros),
            Placeholder::Limit => Value::Integer(values.limit),
        })
    }
}
