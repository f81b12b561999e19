//! The operations of a store, by name.

/// An operation of a [`Store`](idempotent_runtime::Store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`](idempotent_runtime::Store::claim)
    Claim,
    /// [`Store::claim_all`](idempotent_runtime::Store::claim_all)
    ClaimAll,
    /// [`Store::claim_any`](idempotent_runtime::Store::claim_any)
    ClaimAny,
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
    pub const ALL: [Self; 13] = [
        Self::Claim,
        Self::ClaimAll,
        Self::ClaimAny,
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

/// Calls a macro with each operation of a store: its name, its [`Op`], its arguments by reference, then those by value, and
/// its answer.
macro_rules! with_operations {
    ($call:ident) => {
        $call! {
            claim Claim(key: &str, value: &Bytes; ttl: Duration) -> Claim;
            claim_fenced ClaimFenced(key: &str, fence_key: &str, value: &Bytes; ttl: Duration) -> FencedClaim;
            replace Replace(key: &str, expected: &Bytes, value: &Bytes; ttl: Duration) -> Swap;
            remove Remove(key: &str, expected: &Bytes;) -> Swap;
            get Get(key: &str;) -> Option<Entry>;
            replace_and_notify Replace(key: &str, expected: &Bytes, value: &Bytes; ttl: Duration) -> Swap;
            remove_and_notify Remove(key: &str, expected: &Bytes;) -> Swap;
            exchange Exchange(key: &str, expected: &Bytes, value: &Bytes;) -> Swap;
            count Count(key: &str; attempt: u128, window: Duration) -> Count;
            set_insert SetInsert(set: &str, member: &[u8], owner: &Bytes; retention: Duration) -> Claim;
            set_remove SetRemove(set: &str, member: &[u8], owner: &Bytes; retention: Duration) -> Swap;
            bloom_insert BloomInsert(filter: &BloomFilter, member: &[u8];) -> Hint;
            bloom_stats BloomStats(filter: &BloomFilter;) -> Option<BloomStats>;
        }
    };
}
pub(crate) use with_operations;
