//! How a body returned.

use crate::record::kept::Kept;

/// How a body returned, and what is stored of its outcome.
#[derive(Debug)]
pub struct BodyOutcome {
    pub(crate) success: bool,
    pub(crate) kept: Kept,
}

impl BodyOutcome {
    pub(crate) fn new(success: bool, kept: Kept) -> Self {
        Self { success, kept }
    }
}

impl From<bool> for BodyOutcome {
    /// Whether the body succeeded. Nothing is stored of its outcome.
    fn from(success: bool) -> Self {
        Self::new(success, Kept::Nothing)
    }
}
