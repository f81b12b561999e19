//! What a store fails with.

use std::error::Error as StdError;
use std::fmt;

/// A store operation that failed.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// What a failure says about the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The operation was refused before it changed anything; it may be sent again.
    NotApplied,
    /// There is no conclusive answer: the operation was applied, or will be, or never will.
    Unknown,
    /// The store has no room for new data; nothing was changed.
    Full,
    /// The store cannot serve this as it is set up (credentials, permissions, a key of another
    /// program's type); sending again will not help.
    Misconfigured,
}

impl StoreError {
    /// Makes an error of `kind`; `source` says what happened, in the words of the store's client.
    pub fn new(kind: StoreErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// What the failure says about the operation.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::NotApplied => "the store refused the operation",
            StoreErrorKind::Unknown => "the store gave no conclusive answer",
            StoreErrorKind::Full => "the store is full",
            StoreErrorKind::Misconfigured => "the store is not set up for this",
        })
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
