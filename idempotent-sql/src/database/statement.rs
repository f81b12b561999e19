//! Statements as data: a text, and which values it binds.

use idempotent_driver::sql::driver::Value;

/// A statement, and the values that it binds in their order.
#[derive(Debug)]
pub struct FixedStatement {
    pub(crate) text: &'static str,
    slots: &'static [Placeholder],
}

/// The place of a value in a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Placeholder {
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        expect(dead_code, reason = "MySQL has keys of bytes")
    )]
    Key,
    /// The key as bytes, for a column of bytes.
    #[cfg_attr(
        not(feature = "mysql"),
        expect(dead_code, reason = "only MySQL has keys of bytes")
    )]
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
    pub(crate) fn new(key: &'a str) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    pub(crate) fn expected(self, expected: &'a [u8]) -> Self {
        Self { expected, ..self }
    }

    pub(crate) fn with(self, new: &'a [u8]) -> Self {
        Self { new, ..self }
    }

    pub(crate) fn micros(self, micros: i64) -> Self {
        Self { micros, ..self }
    }

    pub(crate) fn limit(self, limit: impl Into<i64>) -> Self {
        let limit = limit.into();
        Self { limit, ..self }
    }
}

impl FixedStatement {
    pub(crate) const fn new(text: &'static str, slots: &'static [Placeholder]) -> Self {
        Self { text, slots }
    }

    /// The values that the statement binds, in their order.
    pub(crate) fn values<'a>(
        &'static self,
        values: Parameters<'a>,
    ) -> impl Iterator<Item = Value<'a>> {
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
