//! A store around a store: what it does not change, it forwards.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::answer::{Claim, Count, Entry, Hint, Swap};
use super::contract::Store;
use super::durability::Durability;
use super::filter::{BloomFilter, BloomStats};
use super::finding::Finding;
use crate::error::store::StoreError;

/// Writes every operation of [`Store`] as a call of the same operation of `$to`, by the trait `$of`.
///
/// A future is handed on as it is, without another one around it. That is why lifetimes are written out, one for each
/// reference, as [`async_trait`](super::async_trait) writes them.
macro_rules! forward {
    ($of:ident: |$store:ident| $to:expr) => {
        forward! { $of: |$store| $to,
            async {
                claim<'k, 'v>(key: &'k str, value: &'v Bytes, ttl: Duration) -> Result<Claim, StoreError>;
                replace<'k, 'e, 'v>(key: &'k str, expected: &'e Bytes, value: &'v Bytes, ttl: Duration) -> Result<Swap, StoreError>;
                remove<'k, 'e>(key: &'k str, expected: &'e Bytes) -> Result<Swap, StoreError>;
                get<'k>(key: &'k str) -> Result<Option<Entry>, StoreError>;
                replace_and_notify<'k, 'e, 'v>(key: &'k str, expected: &'e Bytes, value: &'v Bytes, ttl: Duration) -> Result<Swap, StoreError>;
                remove_and_notify<'k, 'e>(key: &'k str, expected: &'e Bytes) -> Result<Swap, StoreError>;
                subscribe<'k>(key: &'k str) -> Option<watch::Receiver<()>>;
                exchange<'k, 'e, 'v>(key: &'k str, expected: &'e Bytes, value: &'v Bytes) -> Result<Swap, StoreError>;
                count<'k>(key: &'k str, attempt: u128, window: Duration) -> Result<Count, StoreError>;
                set_insert<'s, 'm, 'o>(set: &'s str, member: &'m [u8], owner: &'o Bytes, retention: Duration) -> Result<Claim, StoreError>;
                set_remove<'s, 'm, 'o>(set: &'s str, member: &'m [u8], owner: &'o Bytes, retention: Duration) -> Result<Swap, StoreError>;
                bloom_insert<'f, 'm>(filter: &'f BloomFilter, member: &'m [u8]) -> Result<Hint, StoreError>;
                bloom_stats<'f>(filter: &'f BloomFilter) -> Result<Option<BloomStats>, StoreError>;
                examine<'k>(key: &'k str, deadline: Duration) -> Vec<Finding>;
            }
            plain {
                durability() -> Durability;
                longest_record(bytes: usize) -> ();
            }
        }
    };
    ($of:ident: |$store:ident| $to:expr,
        async { $($operation:ident<$($life:lifetime),+>($($argument:ident: $type:ty),+) -> $answer:ty;)+ }
        plain { $($plain:ident($($given:ident: $kind:ty)?) -> $said:ty;)+ }
    ) => {
        $(
            #[doc = concat!("Forwards [`Store::", stringify!($operation), "`].")]
            fn $operation<'store, $($life,)+ 'future>(
                &'store self,
                $($argument: $type),+
            ) -> Pin<Box<dyn Future<Output = $answer> + Send + 'future>>
            where
                'store: 'future,
                $($life: 'future,)+
                Self: 'future,
            {
                let $store = self;
                $of::$operation($to, $($argument),+)
            }
        )+
        $(
            #[doc = concat!("Forwards [`Store::", stringify!($plain), "`].")]
            fn $plain(&self $(, $given: $kind)?) -> $said {
                let $store = self;
                $of::$plain($to $(, $given)?)
            }
        )+
    };
}

/// A store around another one, that changes some of what the other one does.
///
/// Whatever implements this is a [`Store`]. Each operation of it that is not overridden is the same operation of
/// [`inner`](Self::inner): so what is one step there stays one step, and an operation that a later version adds is
/// forwarded as well. This store measures how long claims take, and nothing else of it is different:
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::time::{Duration, Instant};
///
/// use idempotence::store::{Bytes, Claim, Store, StoreError, Wrap, async_trait};
///
/// #[derive(Debug)]
/// struct Timed<S>(S);
///
/// #[async_trait]
/// impl<S: Store> Wrap for Timed<S> {
///     type Inner = S;
///
///     fn inner(&self) -> &S {
///         &self.0
///     }
///
///     async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
///         let sent = Instant::now();
///         let answer = self.0.claim(key, value, ttl).await;
///         println!("a claim took {:?}", sent.elapsed());
///         answer
///     }
/// }
///
/// let handle = idempotence::Idempotency::new(Timed(idempotence::MemoryStore::new()));
/// ```
///
/// # What is not forwarded to
///
/// An operation that is not overridden goes to the store inside, past those that are. Whoever overrides
/// [`replace`](Self::replace) also overrides [`replace_and_notify`](Self::replace_and_notify); whoever gives keys or values
/// another form overrides whatever has a key or a value. With `#[deny(clippy::missing_trait_methods)]` on the
/// `impl`, clippy names those that were left out. A store that changes the form of everything, such as one that
/// encrypts, has less to write as a [`Store`] of its own: it has the four operations, and by default all others are
/// made of these, in more steps.
///
/// # Imports
///
/// [`Store`] and `Wrap` have methods of the same names. Where both are imported, `wrapper.get(key)` does not compile, and
/// `Store::get(&wrapper, key)` does. With `impl store::Wrap for …` there is no need to import `Wrap`.
pub trait Wrap: fmt::Debug + Send + Sync + 'static {
    /// The store inside.
    type Inner: Store + ?Sized;

    /// The store inside, to which everything goes that is not overridden.
    fn inner(&self) -> &Self::Inner;

    forward!(Store: |store| store.inner());
}

#[diagnostic::do_not_recommend]
#[deny(
    clippy::missing_trait_methods,
    reason = "what is missing is not forwarded"
)]
impl<W: Wrap> Store for W {
    forward!(Wrap: |store| store);
}

#[deny(
    clippy::missing_trait_methods,
    reason = "what is missing is not forwarded"
)]
impl<S: Store + ?Sized> Store for Arc<S> {
    forward!(Store: |store| &**store);
}

#[cfg(test)]
mod tests;
