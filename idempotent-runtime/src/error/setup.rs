//! What could not be set up.

use std::error::Error as StdError;
use std::fmt;

use crate::key::endpoint::InvalidName;

/// An [`Idempotency`](crate::Idempotency) or a store that could not be set up.
pub struct SetupError {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl SetupError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    #[cfg(any(
        feature = "mysql",
        feature = "order-numbers",
        feature = "postgres",
        feature = "redis",
        feature = "sqlite"
    ))]
    pub(crate) fn caused(
        what: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}

impl From<InvalidName> for SetupError {
    fn from(name: InvalidName) -> Self {
        Self::new(name.to_string())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for SetupError {
    /// Reads as it should where `main` returns it: each mistake on a line, and the causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for SetupError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
