//! The error of a setup.

use std::error::Error as StdError;
use std::fmt;

use crate::key::name::InvalidName;

/// An [`Idempotency`](crate::Idempotency) or a store that could not be set up.
///
/// Its [`Display`](fmt::Display) is one line for operators: what failed and why, with the host or the file, never with a
/// password. [`Debug`] adds the causes, and has a line for each mistake, because `main` prints `Debug`.
pub struct SetupError {
    /// What failed. Each of several mistakes is on a line.
    what: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl SetupError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
        }
    }

    /// An error whose `cause` is the reason.
    pub(crate) fn caused(
        what: impl Into<String>,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.into(),
            cause: Some(cause.into()),
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
        for (at, mistake) in self.what.lines().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{mistake}")?;
        }
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        let mut last = String::new();
        while let Some(error) = cause {
            // Statements follow after the first line. Many errors of clients repeat the text of their cause.
            let text = error.to_string();
            let is_one_line = !text.contains('\n');
            if is_one_line && !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            if is_one_line {
                last = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for SetupError {
    /// The cause below the reason. The text of this error already contains the reason.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref()?.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_mistakes_are_one_line_for_display_and_a_line_each_for_debug() {
        let error = SetupError::new("a.toml:1: no\na.toml:2: nor this");
        assert_eq!(error.to_string(), "a.toml:1: no; a.toml:2: nor this");
        assert_eq!(format!("{error:?}"), "a.toml:1: no\na.toml:2: nor this");
        assert!(error.source().is_none());
    }

    #[test]
    fn debug_leaves_out_statements() {
        #[derive(Debug, thiserror::Error)]
        #[error("these statements make the tables:\n\nCREATE TABLE t\n")]
        struct Statements(#[source] std::fmt::Error);

        let error = SetupError::caused("no tables", Statements(std::fmt::Error));
        assert_eq!(
            format!("{error:?}"),
            format!("no tables: {}", std::fmt::Error)
        );
    }

    #[test]
    fn the_text_has_the_reason_and_no_chain_has_it_twice() {
        use super::super::store::{StoreError, StoreErrorKind};

        let cause = StoreError::new(StoreErrorKind::NotApplied, "os error 111")
            .reason("refused the connection")
            .place("redis 10.0.0.5:6379");
        let error = SetupError::caused("cannot use the Redis of this URL", cause);
        let text = "cannot use the Redis of this URL: redis 10.0.0.5:6379 refused the connection";
        assert_eq!(error.to_string(), text);
        assert_eq!(format!("{error:?}"), format!("{text}: os error 111"));
        assert_eq!(error.source().unwrap().to_string(), "os error 111");
    }
}
