//! Reading the record of a key, for operators and their tools.

mod forget;

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::try_join3;

use crate::error::{DuplicateState, Error, Failure, Site, Subject};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, KeyPart, Parts};
use crate::protocol::retry::StoreAttempt;
use crate::protocol::shared::Shared;
use crate::protocol::token;
use crate::protocol::token::redemption::Redemption;
use crate::record::call::{Record, RecordState};
use crate::record::fence::FenceLine;
use crate::record::keys_digest::KeysDigest;
use crate::record::steps;
use crate::store::Key;

/// The record of a key when it was read.
#[derive(Clone)]
pub struct Peek {
    site: Site,
    fingerprint: Fingerprint,
    key: Key,
    record: Bytes,
    state: DuplicateState,
    holder: String,
    since: SystemTime,
    lasts: Duration,
    remaining: Option<Duration>,
    fence: Option<i64>,
    keys_digest: Option<KeysDigest>,
    /// The record of its steps, if it has one.
    steps: Option<Bytes>,
}

impl Idempotency {
    /// Reads the record of a call of `endpoint` with these key parts. Returns `None` if the key is free.
    ///
    /// Give the parts of the option `key` as a tuple in the same order. In a call by the builder each
    /// [`key`](crate::GuardedCall::key) adds one part: after `.key(&(a, b))` the only part is itself a tuple, so give `&((a, b),)`. Calls with the option `token` have other keys: use
    /// [`peek_token`](Self::peek_token) or [`peek_subject`](Self::peek_subject). If this process knows that calls of the endpoint
    /// have the option, and the key of the parts is free, that is an error; a process that does not know it returns `None`. For
    /// calls with the option `tx` use `peek_tx`. Of calls with the option `permits` this reads the first permit;
    /// [`peek_digits`](Self::peek_digits) finds all.
    ///
    /// Round trips: one, for the record, the number of its fence and its steps. Changes nothing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// if let Some(stuck) = idempotency.peek("orders.pay", &(7, "2026-11-21/42")).await? {
    ///     println!("{} holds it since {:?}", stuck.holder(), stuck.since());
    ///     idempotency.forget(&stuck).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if the name is not a valid endpoint name, or a part cannot be serialized; [`Error::ForeignRecord`]
    /// if the store has other bytes under the key, which this version did not write; [`Error::InvalidPolicy`] if the key is free
    /// and calls of the endpoint have the option `token`; [`Error::Unavailable`] or [`Error::Misconfigured`] if the store cannot
    /// serve the request.
    pub async fn peek(&self, endpoint: &str, parts: &impl Parts) -> Result<Option<Peek>, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let fingerprint = self.parts(&endpoint, parts)?.finish();
        let found = self.read(endpoint.clone(), fingerprint, Shared::key);
        let found = found.await?;
        let known = self.shared().known_endpoints();
        if found.is_none() && known.redeems_token(endpoint.as_str()) {
            let what = "its calls have the option `token`, so no call has the key of these parts; use `peek_subject` with the \
                        parts, or `peek_token` if the token is the whole key";
            let site = Site::of(Subject::Peek, endpoint);
            return Err(Error::InvalidPolicy(Failure::new(site, what, None)));
        }
        Ok(found)
    }

    /// Reads the committed row of a call with the option `tx`, or of `run_in`. Returns `None` if there is no committed row.
    ///
    /// The row is in the database of the transaction, so the handle needs a store on that database:
    /// `Idempotency::builder(PostgresStore::new(pool))`, with the prefix, digest and secret of the handle that made the
    /// call. [`forget`](Self::forget) removes the row.
    ///
    /// Round trips: as [`peek`](Self::peek). Changes nothing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[cfg(feature = "sql")]
    /// # async fn example(idempotency: idempotence::Idempotency, pool: idempotence::sql::sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use idempotence::Error;
    /// use idempotence::sql::sqlx::sqlite::SqliteConnection;
    ///
    /// // `idempotency` has the store `SqliteStore::new(pool.clone())`.
    /// let mut tx = pool.begin().await?;
    /// let pay = idempotency.call("orders.pay").key(&7).key("2026-11-21/42").ttl(Duration::from_hours(24));
    /// pay.run_in(&mut tx, async |_: &mut SqliteConnection| Ok::<_, Error>(())).await?;
    /// tx.commit().await?;
    ///
    /// // The same name and parts are another key for a call outside of a transaction.
    /// assert!(idempotency.peek("orders.pay", &(7, "2026-11-21/42")).await?.is_none());
    /// let row = idempotency.peek_tx("orders.pay", &(7, "2026-11-21/42")).await?.expect("a row");
    /// assert!(idempotency.forget(&row).await?); // an equal call runs again
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek).
    #[cfg(feature = "sql")]
    pub async fn peek_tx(&self, endpoint: &str, parts: &impl Parts) -> Result<Option<Peek>, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let fingerprint = self.parts(&endpoint, parts)?.finish();
        self.read(endpoint, fingerprint, Shared::key_in_tx).await
    }

    /// Reads the record of a call of `endpoint` with the option `token` and without the option `key`: its key is the token.
    /// Returns `None` if the key is free.
    ///
    /// Give the subject and the operation with which the token was [issued](crate::Tokens::issue). [`forget`](Self::forget)
    /// frees the key; the token stays used.
    ///
    /// Round trips: as [`peek`](Self::peek). Changes nothing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// # let ttl = std::time::Duration::from_mins(10);
    /// let token = idempotency.tokens().issue(&7, "orders.submit", ttl).await?;
    /// let submitted = idempotency.peek_token("orders.submit", token.as_str(), &7, "orders.submit");
    /// assert!(submitted.await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek), and [`Error::TokenMalformed`] if the text is not a token.
    pub async fn peek_token(
        &self,
        endpoint: &str,
        token: &str,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
    ) -> Result<Option<Peek>, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let redemption = Endpoint::try_new(operation)
            .map_err(|name| Error::invalid_name(Subject::Peek, &name))
            .and_then(|operation| {
                Redemption::build(self.shared(), operation, token, |hasher| {
                    hasher.part(subject)
                })
            })
            .map_err(|error| error.at(&Site::of(Subject::Peek, endpoint.clone())))?;
        let fingerprint = token::key_with(&mut self.shared().keying().hasher(), redemption.bound());
        self.read(endpoint, fingerprint, Shared::key).await
    }

    /// Reads the record of a call of `endpoint` with the options `key` and `token`. Returns `None` if the key is free.
    ///
    /// Give the parts of the option `key`, and the subject and the operation with which the token was
    /// [issued](crate::Tokens::issue): they are part of the key.
    ///
    /// Round trips: as [`peek`](Self::peek). Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek).
    pub async fn peek_subject(
        &self,
        endpoint: &str,
        parts: &impl Parts,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
    ) -> Result<Option<Peek>, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let mut parts = self.parts(&endpoint, parts)?;
        let bound = Endpoint::try_new(operation)
            .map_err(|name| Error::invalid_name(Subject::Peek, &name))
            .and_then(|operation| {
                token::binding(self.shared(), &operation, None, |hasher| {
                    hasher.part(subject)
                })
            })
            .map_err(|error| error.at(&Site::of(Subject::Peek, endpoint.clone())))?;
        let fingerprint = token::key_with(&mut parts, &bound);
        self.read(endpoint, fingerprint, Shared::key).await
    }

    fn parts(&self, endpoint: &Endpoint, parts: &impl Parts) -> Result<Hasher, Error> {
        let mut hasher = self.shared().keying().hasher();
        if parts.add_to(&mut hasher).is_err() {
            let site = Site::of(Subject::Peek, endpoint.clone());
            let what = "a part of the key could not be serialized";
            return Err(Error::InvalidKey(Failure::new(site, what, None)));
        }
        Ok(hasher)
    }

    pub(crate) async fn read(
        &self,
        endpoint: Endpoint,
        fingerprint: Fingerprint,
        key: fn(&Shared, &Endpoint, &Fingerprint) -> Key,
    ) -> Result<Option<Peek>, Error> {
        let key = key(self.shared(), &endpoint, &fingerprint);
        let site = Site::of(Subject::Peek, endpoint).with_key(fingerprint);
        let (store, deadline) = (self.shared().store(), self.shared().deadline());
        let fence_key = self.shared().fence_key(&key);
        let steps_key = self.shared().steps_key(&key);
        let entries = try_join3(
            StoreAttempt::new(store.get(&key), deadline),
            StoreAttempt::new(store.get(&fence_key), deadline),
            StoreAttempt::new(store.get(&steps_key), deadline),
        );
        let (entry, fence, steps) = match entries.await {
            Ok((Some(entry), fence, steps)) => (entry, fence, steps),
            Ok((None, ..)) => return Ok(None),
            Err(error) => return Err(Error::store_operation(site, error)),
        };
        let fence = fence.and_then(|entry| Some(FenceLine::read(&entry.value).ok()?.fence));
        let Some(record) = self.shared().records().read(&key, &entry.value) else {
            return Err(self.shared().records().foreign(site, &entry.value));
        };
        Ok(Some(Peek {
            state: state_of(self.shared(), &record, entry.ttl),
            holder: record.holder().to_owned(),
            since: record.since,
            lasts: record.ttl(),
            remaining: entry.ttl,
            fence,
            keys_digest: record.keys(),
            steps: steps.map(|entry| entry.value),
            record: entry.value.clone(),
            site,
            fingerprint,
            key,
        }))
    }
}

/// The state of a call whose record lives for `remaining`.
pub(super) fn state_of(
    shared: &Shared,
    record: &Record<'_>,
    remaining: Option<Duration>,
) -> DuplicateState {
    let is_kept = || record.is_kept_claim(remaining, shared.store().expiry_slack(record.ttl()));
    match record.state {
        RecordState::Running if record.is_marked() || is_kept() => DuplicateState::Unknown,
        RecordState::Running => DuplicateState::Running,
        RecordState::Done if record.is_failure() => DuplicateState::Failed,
        RecordState::Done => DuplicateState::Done,
    }
}

pub(super) fn endpoint_of(name: &str) -> Result<Endpoint, Error> {
    Endpoint::called(name).map_err(|name| Error::invalid_name(Subject::Peek, &name))
}

impl Peek {
    /// Whether the call is running or done. A call with `release = false` may have ended although its record says running.
    pub fn state(&self) -> DuplicateState {
        self.state
    }

    /// The process that made the call, as `host:pid`: at most 80 letters, digits and characters of `. _ - :`.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// When the call was made, or when it ended if it is done, by the clock of its machine.
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// The time until the record expires if it is not renewed. For a running call this is the rest of its lease and the grace
    /// after it. `None` if the record never expires.
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// The time for which a claim or a renewal keeps the record: the lease and the grace after it. A holder renews after each third of
    /// its lease, unless its call has the option `renew = false` or `release = false`.
    pub fn lasts(&self) -> Duration {
        self.lasts
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.site.endpoint.as_str()
    }

    /// The first 8 hexadecimal digits of the key's fingerprint, as the log has them. All slots of a key with `permits` have the same.
    pub fn digits(&self) -> String {
        self.fingerprint.digits()
    }

    /// The key's whole fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The number of bytes of the record.
    pub fn size(&self) -> usize {
        self.record.len()
    }

    /// The stored result, as it is in the store: sealed, if the handle that wrote it seals. `None` if the record has none.
    pub fn stored(&self) -> Option<Bytes> {
        let end_of_line = self.record.iter().position(|byte| *byte == b'\n')?;
        let stored = self.record.slice(end_of_line + 1..);
        (!stored.is_empty()).then_some(stored)
    }

    /// The number of the last run of the key, if its calls have the option `fence`: see
    /// [`IdempotencyContext::fence`](crate::IdempotencyContext::fence).
    pub fn fence(&self) -> Option<i64> {
        self.fence
    }

    /// The digest of all keys of the call, if it has the option [`also`](crate::GuardedCall::also): each of its keys has the same.
    pub fn keys_digest(&self) -> Option<&str> {
        self.keys_digest.as_ref().map(KeysDigest::as_str)
    }

    /// The names of the [steps](crate::IdempotencyContext::step) that are done, in the order in which they ended.
    pub fn steps(&self) -> Vec<String> {
        let entries = self.steps.as_ref().and_then(steps::read);
        let entries = entries.unwrap_or_default().into_iter();
        entries.map(|entry| entry.name).collect()
    }
}

impl fmt::Debug for Peek {
    /// Does not show the stored result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek")
            .field("site", &self.site)
            .field("state", &self.state)
            .field("holder", &self.holder)
            .field("since", &self.since)
            .field("remaining", &self.remaining)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
