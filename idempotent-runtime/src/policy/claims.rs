//! What a call claims: its key, several keys, or one permit of its key.

/// What a call claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    /// Its key.
    Key,
    /// Its key, and further keys.
    Keys,
    /// One of so many permits of its key.
    Permit(u8),
}

/// The largest number of permits of a key.
pub(crate) const MOST_PERMITS: u8 = 100;
