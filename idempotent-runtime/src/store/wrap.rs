//! A store around another store. It forwards the operations that it does not override.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::answer::{Claim, ClaimAll, ClaimAny, Count, Entry, FencedClaim, Hint, Swap};
use super::contract::Store;
use super::durability::Durability;
use super::filter::{BloomFilter, BloomStats};
use super::finding::Finding;
use super::listing::{Cursor, Page};
use super::local::LocalStore;
use crate::error::store::StoreError;

/// Writes every operation of [`Store`] as a call of the same operation of `$to`, through the trait `$of`.
///
/// The inner future is returned without a second future around it. So the lifetimes are explicit, one for each reference, as
/// [`async_trait`](super::async_trait) writes them.
macro_rules! forward {
    ($of:ident: |$store:ident| $to:expr) => {
        forward! { $of: |$store| $to,
            async {
                claim<'k, 'v>(key: &'k str, value: &'v Bytes, ttl: Duration) -> Result<Claim, StoreError>;
                claim_fenced<'k, 'f, 'v>(key: &'k str, fence_key: &'f str, value: &'v Bytes, ttl: Duration) -> Result<FencedClaim, StoreError>;
                claim_all<'c, 'k, 'v>(claims: &'c [(&'k str, &'v Bytes)], ttl: Duration) -> Result<ClaimAll, StoreError>;
                claim_any<'c, 'k, 'v>(claims: &'c [(&'k str, &'v Bytes)], ttl: Duration) -> Result<ClaimAny, StoreError>;
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
                list<'p, 'c>(prefix: &'p str, after: Option<&'c Cursor>, most: usize) -> Result<Option<Page>, StoreError>;
                examine<'k>(key: &'k str, deadline: Duration) -> Vec<Finding>;
            }
            plain {
                durability() -> Durability;
                expiry_slack(ttl: Duration) -> Duration;
                longest_record(bytes: usize) -> ();
            }
        }
    };
    ($of:ident: |$store:ident| $to:expr,
        async { $($operation:ident<$($life:lifetime),+>($($argument:ident: $type:ty),+) -> $answer:ty;)+ }
        plain { $($plain:ident($($given:ident: $kind:ty)?) -> $output:ty;)+ }
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
            fn $plain(&self $(, $given: $kind)?) -> $output {
                let $store = self;
                $of::$plain($to $(, $given)?)
            }
        )+
    };
}

/// A store around another store that changes some of its operations.
///
/// Every `Wrap` is a [`Store`]. An operation that is not overridden goes to the same operation of [`inner`](Self::inner). So
/// one inner step stays one step, and operations that later versions add are forwarded. This store measures how long claims
/// take:
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
/// # Overrides are bypassed
///
/// An operation that is not overridden goes directly to the inner store, not through the overrides. If you override
/// [`claim`](Self::claim), also override [`claim_all`](Self::claim_all) and [`claim_any`](Self::claim_any), for example by the
/// answer `NotTogether`, and [`claim_fenced`](Self::claim_fenced), for example by
/// [`claim_fenced_in_steps`](super::claim_fenced_in_steps); if you override [`replace`](Self::replace), also
/// override [`replace_and_notify`](Self::replace_and_notify). If you change the form of keys
/// or values, override every operation with a key or a value. With `#[deny(clippy::missing_trait_methods)]` on the `impl`,
/// clippy names the missing operations. A store that changes everything, for example a store that encrypts, is simpler as a
/// [`Store`]: it needs the four required operations, which the defaults use, in more steps.
///
/// # Imports
///
/// [`Store`] and `Wrap` have methods of the same names. If both are imported, `wrapper.get(key)` does not compile, but
/// `Store::get(&wrapper, key)` does. With `impl store::Wrap for …` there is no need to import `Wrap`.
pub trait Wrap: fmt::Debug + Send + Sync + 'static {
    /// The type of the inner store.
    type Inner: Store + ?Sized;

    /// The inner store, which gets every operation that is not overridden.
    fn inner(&self) -> &Self::Inner;

    forward!(Store: |store| store.inner());
}

#[diagnostic::do_not_recommend]
#[deny(
    clippy::missing_trait_methods,
    reason = "a missing operation would not be forwarded"
)]
impl<W: Wrap> Store for W {
    forward!(Wrap: |store| store);

    /// `None`, so that every operation passes through the wrapper.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }

    /// `false`, because the wrapper may send a claim to several stores.
    fn notes_unsent(&self) -> bool {
        false
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a missing operation would not be forwarded"
)]
impl<S: Store + ?Sized> Store for Arc<S> {
    forward!(Store: |store| &**store);

    /// Forwards [`Store::local`].
    fn local(&self) -> Option<&dyn LocalStore> {
        (**self).local()
    }

    fn notes_unsent(&self) -> bool {
        (**self).notes_unsent()
    }
}
