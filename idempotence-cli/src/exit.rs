//! Why the command ends without success, and with which code.

use std::error::Error;
use std::io;

/// A failure of the command, which is printed to stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Empty if everything is already printed.
    pub(crate) text: String,
}

impl Failure {
    /// The store or the machine failed.
    pub(crate) fn runtime(text: impl Into<String>) -> Self {
        Self::new(1, text)
    }

    /// The arguments, the settings or the name of an endpoint are wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(2, text)
    }

    /// No key is what was asked for.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(3, text)
    }

    /// It would be dangerous.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(REFUSED, text)
    }

    fn new(code: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }
}

/// The exit code of [`Failure::refused`].
pub(crate) const REFUSED: u8 = 4;

impl From<idempotence::Error> for Failure {
    fn from(error: idempotence::Error) -> Self {
        let text = with_causes(&error);
        match error {
            idempotence::Error::InvalidKey(_) | idempotence::Error::InvalidPolicy(_) => {
                Self::usage(text)
            }
            _ => Self::runtime(text),
        }
    }
}

impl From<idempotence::StoreError> for Failure {
    fn from(error: idempotence::StoreError) -> Self {
        Self::runtime(with_causes(&error))
    }
}

/// The reader of the output has closed it, or it cannot be written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // `| head` has read enough.
            return Self::new(0, "");
        }
        Self::runtime(format!("cannot write the output: {error}"))
    }
}

/// The text of an error and of its causes. A cause whose text is already there is left out.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
