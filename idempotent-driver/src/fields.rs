//! Reads the columns of a row.

use crate::error::DriverError;
use crate::value::Field;

/// The columns of a row, read one after the other.
#[derive(Debug)]
pub struct Fields(std::vec::IntoIter<Field>);

impl Fields {
    /// The only row of a statement.
    ///
    /// # Errors
    ///
    /// If there is no row.
    pub fn of(row: Option<Vec<Field>>) -> Result<Self, DriverError> {
        match row {
            Some(row) => Ok(Self(row.into_iter())),
            None => Err(DriverError::other("the statement returned no row")),
        }
    }

    /// The next column, which has bytes or NULL.
    ///
    /// # Errors
    ///
    /// If it has another type.
    pub fn bytes(&mut self) -> Result<Option<Vec<u8>>, DriverError> {
        match self.0.next() {
            Some(Field::Null) => Ok(None),
            Some(Field::Bytes(bytes)) => Ok(Some(bytes)),
            field => Err(unexpected("bytes", field.as_ref())),
        }
    }

    /// The next column, which has an integer.
    ///
    /// # Errors
    ///
    /// If it has another type, or is NULL.
    pub fn integer(&mut self) -> Result<i64, DriverError> {
        match self.0.next() {
            Some(Field::Integer(number)) => Ok(number),
            field => Err(unexpected("an integer", field.as_ref())),
        }
    }

    /// The next column, which has a text.
    ///
    /// # Errors
    ///
    /// If it has another type, or is NULL.
    pub fn text(&mut self) -> Result<String, DriverError> {
        match self.0.next() {
            Some(Field::Text(text)) => Ok(text),
            field => Err(unexpected("a text", field.as_ref())),
        }
    }
}

/// The value is not in the error, because it may be a secret.
fn unexpected(wanted: &str, field: Option<&Field>) -> DriverError {
    let found = match field {
        None => "no column",
        Some(Field::Null) => "NULL",
        Some(Field::Text(_)) => "a text",
        Some(Field::Bytes(_)) => "bytes",
        Some(Field::Integer(_)) => "an integer",
        Some(Field::Float(_)) => "a floating-point number",
    };
    DriverError::other(format!("the driver read {found} instead of {wanted}"))
}
