//! How a body returned.

use crate::record::kept::Kept;

/// How a body returned, and what is stored of its outcome.
#[derive(Debug)]
pub struct BodyOutcome {
    pub(crate) success: bool,
    /// What is stored of the result.
    pub kept: Kept,
    /// The body chose that its result is not stored, so no event reports it.
    pub(crate) is_chosen: bool,
}

impl BodyOutcome {
    /// The end of a body whose result is stored like this.
    pub fn new(success: bool, kept: Kept) -> Self {
        Self {
            success,
            kept,
            is_chosen: false,
        }
    }

    /// Nobody knows whether the body did its work.
    pub(crate) fn unknown() -> Self {
        Self::new(false, Kept::Unknown)
    }

    /// Notes that the body chose that its result is not stored.
    #[must_use]
    pub fn chosen(mut self, is_chosen: bool) -> Self {
        self.is_chosen = is_chosen;
        self
    }
}

impl From<bool> for BodyOutcome {
    /// Whether the body succeeded. Nothing is stored of its outcome.
    fn from(success: bool) -> Self {
        Self::new(success, Kept::Nothing)
    }
}
