//! The operations of a store by name, and how often each was sent.

/// Makes [`Op`] and [`Counts`] of one row for each operation: its variant, its field, and the operations of a store that it names.
macro_rules! operations {
    ($($op:ident $field:ident $operations:literal;)+) => {
        /// An operation of a [`Store`](idempotent_runtime::Store).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op {
            $(#[doc = $operations] $op,)+
        }

        impl Op {
            /// The operations that every store must implement.
            pub const FOUR: [Self; 4] = [Self::Claim, Self::Replace, Self::Remove, Self::Get];

            /// All operations.
            pub const ALL: [Self; [$(Self::$op),+].len()] = [$(Self::$op),+];
        }

        /// How many times each operation was sent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counts {
            $(#[doc = concat!("Sends of ", $operations, ".")] pub $field: usize,)+
            /// Sends of [`Store::subscribe`](idempotent_runtime::Store::subscribe).
            pub subscribe: usize,
        }

        impl Counts {
            pub(crate) fn new(sent: impl Fn(Op) -> usize, subscribe: usize) -> Self {
                Self { $($field: sent(Op::$op),)+ subscribe }
            }

            /// The sum of all sends.
            pub fn total(self) -> usize {
                $(self.$field +)+ self.subscribe
            }
        }
    };
}

operations! {
    Claim claim "[`Store::claim`](idempotent_runtime::Store::claim)";
    ClaimAll claim_all "[`Store::claim_all`](idempotent_runtime::Store::claim_all)";
    ClaimAny claim_any "[`Store::claim_any`](idempotent_runtime::Store::claim_any)";
    ClaimFenced claim_fenced "[`Store::claim_fenced`](idempotent_runtime::Store::claim_fenced)";
    Replace replace "[`Store::replace`](idempotent_runtime::Store::replace) and [`Store::replace_and_notify`](idempotent_runtime::Store::replace_and_notify)";
    Remove remove "[`Store::remove`](idempotent_runtime::Store::remove) and [`Store::remove_and_notify`](idempotent_runtime::Store::remove_and_notify)";
    Get get "[`Store::get`](idempotent_runtime::Store::get)";
    Exchange exchange "[`Store::exchange`](idempotent_runtime::Store::exchange)";
    Count count "[`Store::count`](idempotent_runtime::Store::count)";
    SetInsert set_insert "[`Store::set_insert`](idempotent_runtime::Store::set_insert)";
    SetRemove set_remove "[`Store::set_remove`](idempotent_runtime::Store::set_remove)";
    BloomInsert bloom_insert "[`Store::bloom_insert`](idempotent_runtime::Store::bloom_insert)";
    BloomStats bloom_stats "[`Store::bloom_stats`](idempotent_runtime::Store::bloom_stats)";
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
