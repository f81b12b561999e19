//! How a call ended.

use crate::record::kept::Kept;

/// How a body ended.
#[derive(Debug)]
pub struct End {
    pub(crate) success: bool,
    pub(crate) kept: Kept,
}

impl End {
    pub(crate) fn new(success: bool, kept: Kept) -> Self {
        Self { success, kept }
    }
}

impl From<bool> for End {
    /// With a success or not, and nothing kept of it.
    fn from(success: bool) -> Self {
        Self::new(success, Kept::Nothing)
    }
}
