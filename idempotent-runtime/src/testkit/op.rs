//! The operations of a store, by name.

/// An operation of a [`Store`](crate::Store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`](crate::Store::claim)
    Claim,
    /// [`Store::replace`](crate::Store::replace), telling of it or not
    Replace,
    /// [`Store::remove`](crate::Store::remove), telling of it or not
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
    /// The four that every store has to have.
    pub const FOUR: [Self; 4] = [Self::Claim, Self::Replace, Self::Remove, Self::Get];

    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Claim,
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
