//! The operations of a store, by name.

/// An operation of a [`Store`](idempotent_runtime::Store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`](idempotent_runtime::Store::claim)
    Claim,
    /// [`Store::claim_fenced`](idempotent_runtime::Store::claim_fenced)
    ClaimFenced,
    /// [`Store::replace`](idempotent_runtime::Store::replace) and [`Store::replace_and_notify`](idempotent_runtime::Store::replace_and_notify)
    Replace,
    /// [`Store::remove`](idempotent_runtime::Store::remove) and [`Store::remove_and_notify`](idempotent_runtime::Store::remove_and_notify)
    Remove,
    /// [`Store::get`](idempotent_runtime::Store::get)
    Get,
    /// [`Store::exchange`](idempotent_runtime::Store::exchange)
    Exchange,
    /// [`Store::count`](idempotent_runtime::Store::count)
    Count,
    /// [`Store::set_insert`](idempotent_runtime::Store::set_insert)
    SetInsert,
    /// [`Store::set_remove`](idempotent_runtime::Store::set_remove)
    SetRemove,
    /// [`Store::bloom_insert`](idempotent_runtime::Store::bloom_insert)
    BloomInsert,
    /// [`Store::bloom_stats`](idempotent_runtime::Store::bloom_stats)
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
