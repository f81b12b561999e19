//! The operations of a store, by name.

/// An operation of a [`Store`](crate::Store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`](crate::Store::claim)
    Claim,
    /// [`Store::claim_fenced`](crate::Store::claim_fenced)
    ClaimFenced,
    /// [`Store::replace`](crate::Store::replace) and [`Store::replace_and_notify`](crate::Store::replace_and_notify)
    Replace,
    /// [`Store::remove`](crate::Store::remove) and [`Store::remove_and_notify`](crate::Store::remove_and_notify)
    Remove,
    /// [`Store::get`](crate::Store::get)
    Get,
    /// [`Store::exchange`](crate::Store::exchange)
    Exchange,
    /// [`Store::count`](crate::Store::count)
    Count,
    /// [`Store::set_insert`](crate::Store::set_insert)
    SetInsert,
    /// [`Store::set_remove`](crate::Store::set_remove)
    SetRemove,
    /// [`Store::bloom_insert`](crate::Store::bloom_insert)
    BloomInsert,
    /// [`Store::bloom_stats`](crate::Store::bloom_stats)
    BloomStats,
}

impl Op {
    /// The operations that every store must implement.
    pub const FOUR: [Self; 4] = [Self::Claim, Self::Replace, Self::Remove, Self::Get];

    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::Claim,
        Self::ClaimFenced,
        Self::Replace,
        Self::Remove,
        Self::Get,
        Self::Exchange,
        Self::Count,
        Self::SetInsert,
        Self::SetRemove,
        Self::BloomInsert,
        Self::BloomStats,
    ];
}
