//! Looking at what stands under a key, and removing it: for operators and their tools.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::error::{DuplicateState, Error, Failure, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, KeyPart, Parts};
use crate::protocol::retry::Attempt;
use crate::protocol::shared::Shared;
use crate::protocol::token;
use crate::protocol::token::redemption::Redemption;
use crate::record::call::State;
use crate::store::Swap;

/// What stood under a key when it was looked at.
#[derive(Clone)]
pub struct Peek {
    site: Site,
    key: String,
    record: Bytes,
    state: DuplicateState,
    holder: String,
    since: SystemTime,
    remaining: Option<Duration>,
}

impl Idempotency {
    /// Looks at what stands under the key that a call of `endpoint` with these key parts has; `None` if it is free.
    ///
    /// The parts are those of the option `key`, as a tuple in the same order. Calls with the option `token` have other keys,
    /// which [`peek_token`](Self::peek_token) and [`peek_subject`](Self::peek_subject) look at, and so have calls with the option
    /// `tx`: `peek_tx` looks at their rows. Costs one round trip, and changes nothing.
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
    /// If the store gives no answer, something foreign stands there, or a part cannot be encoded.
    pub async fn peek(&self, endpoint: &str, parts: &impl Parts) -> Result<Option<Peek>, Error> {
        let endpoint = Endpoint::called(endpoint).map_err(Error::invalid_name)?;
        let fingerprint = self.parts(&endpoint, parts)?.finish();
        self.look(endpoint, fingerprint, Shared::key).await
    }

    /// Looks at the row of a call with the option `tx`, or of `run_in`: what a committed transaction has left under the key
    /// that such a call of `endpoint` with these key parts has; `None` if it is free, or only open.
    ///
    /// The row is in the database that the transaction was in, so the store of the handle must be of that database:
    /// `Idempotency::builder(PostgresStore::new(pool))`, with the prefix, digest and secret of the handle that made the
    /// call. [`forget`](Self::forget) removes it. Costs one round trip, and changes nothing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use idempotence::sql::sqlx::sqlite::{SqliteConnection, SqlitePoolOptions};
    /// use idempotence::{Error, Idempotency, SqliteStore, sql};
    ///
    /// let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// sql::migrate(&pool).await?;
    /// let idempotency = Idempotency::new(SqliteStore::new(pool.clone()));
    ///
    /// let mut tx = pool.begin().await?;
    /// let pay = idempotency.call("orders.pay").key(&7).key("2026-11-21/42").ttl(Duration::from_hours(24));
    /// pay.run_in(&mut tx, async |_: &mut SqliteConnection| Ok::<_, Error>(())).await?;
    /// tx.commit().await?;
    ///
    /// // The same name and parts, and another key: that of the call in the store.
    /// assert!(idempotency.peek("orders.pay", &(7, "2026-11-21/42")).await?.is_none());
    /// let row = idempotency.peek_tx("orders.pay", &(7, "2026-11-21/42")).await?.expect("a row");
    /// assert!(idempotency.forget(&row).await?); // an equal call runs again
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek).
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub async fn peek_tx(&self, endpoint: &str, parts: &impl Parts) -> Result<Option<Peek>, Error> {
        let endpoint = Endpoint::called(endpoint).map_err(Error::invalid_name)?;
        let fingerprint = self.parts(&endpoint, parts)?.finish();
        self.look(endpoint, fingerprint, Shared::key_in_tx).await
    }

    /// Looks at what stands under the key of a call of `endpoint` whose token is its key: one with the option `token`, and
    /// without `key`. `None` if it is free.
    ///
    /// The subject and the operation are those that the token was [issued](crate::Tokens::issue) with. Costs one round
    /// trip, and changes nothing. To [`forget`](Self::forget) the call frees its key; its token stays used.
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
    /// As [`peek`](Self::peek), and [`Error::TokenMalformed`] if it cannot be a token.
    pub async fn peek_token(
        &self,
        endpoint: &str,
        token: &str,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
    ) -> Result<Option<Peek>, Error> {
        let endpoint = Endpoint::called(endpoint).map_err(Error::invalid_name)?;
        let redemption = Endpoint::try_new(operation)
            .map_err(Error::invalid_name)
            .and_then(|operation| {
                Redemption::build(self.shared(), operation, token, |hasher| {
                    hasher.part(subject)
                })
            })
            .map_err(|error| error.at(&Site::without_key(endpoint.clone())))?;
        let fingerprint = token::key_with(self.shared().keying().hasher(), redemption.bound());
        self.look(endpoint, fingerprint, Shared::key).await
    }

    /// Looks at what stands under the key of a call of `endpoint` with the options `key` and `token`; `None` if it is free.
    ///
    /// The parts are those of the option `key`; the subject and the operation are those that the token was
    /// [issued](crate::Tokens::issue) with, and part of the key. Costs one round trip, and changes nothing.
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
        let endpoint = Endpoint::called(endpoint).map_err(Error::invalid_name)?;
        let parts = self.parts(&endpoint, parts)?;
        let bound = Endpoint::try_new(operation)
            .map_err(Error::invalid_name)
            .and_then(|operation| {
                token::binding(self.shared(), &operation, None, |hasher| {
                    hasher.part(subject)
                })
            })
            .map_err(|error| error.at(&Site::without_key(endpoint.clone())))?;
        let fingerprint = token::key_with(parts, &bound);
        self.look(endpoint, fingerprint, Shared::key).await
    }

    fn parts(&self, endpoint: &Endpoint, parts: &impl Parts) -> Result<Hasher, Error> {
        let mut hasher = self.shared().keying().hasher();
        if parts.add_to(&mut hasher).is_err() {
            let site = Site::without_key(endpoint.clone());
            let what = "a part of the key could not be serialized";
            return Err(Error::InvalidKey(Failure::new(site, what, None)));
        }
        Ok(hasher)
    }

    async fn look(
        &self,
        endpoint: Endpoint,
        fingerprint: Fingerprint,
        key: fn(&Shared, &Endpoint, &Fingerprint) -> String,
    ) -> Result<Option<Peek>, Error> {
        let key = key(self.shared(), &endpoint, &fingerprint);
        let site = Site {
            endpoint,
            fingerprint: Some(fingerprint),
        };
        let entry =
            match Attempt::new(self.shared().store().get(&key), self.shared().deadline()).await {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(None),
                Err(error) => return Err(Error::store(site, error)),
            };
        let Some(record) = self.shared().result_options().read_record(&entry.value) else {
            return Err(Error::foreign(site));
        };
        Ok(Some(Peek {
            state: match record.state {
                State::Running => DuplicateState::Running,
                State::Done if record.is_failure() => DuplicateState::Failed,
                State::Done => DuplicateState::Done,
            },
            holder: record.holder.to_owned(),
            since: record.since,
            remaining: entry.ttl,
            record: entry.value.clone(),
            site,
            key,
        }))
    }

    /// Frees the key, if what was looked at still stands there. Whether it did.
    ///
    /// A body that still runs under it loses its lease at its next renewal, and an equal call may run beside it
    /// until then. Costs one round trip.
    ///
    /// # Errors
    ///
    /// If the store gives no answer.
    pub async fn forget(&self, peek: &Peek) -> Result<bool, Error> {
        let removal = self.shared().store().remove(&peek.key, &peek.record);
        let removal = Attempt::new(removal, self.shared().deadline()).await;
        if !matches!(removal, Ok(Swap::Other(_))) {
            // It is gone, or may be: a call of this process that has it is for the store to tell of.
            self.shared().in_flight_table().evict(&peek.key);
        }
        match removal {
            Ok(swap) => Ok(swap == Swap::Done),
            Err(error) => Err(Error::store(peek.site.clone(), error)),
        }
    }
}

impl Peek {
    /// Whether the call is running or done. One with `release = false` may be over although it says running.
    pub fn state(&self) -> DuplicateState {
        self.state
    }

    /// The process that made the call, as `host:pid`: at most 80 letters, digits and `. _ - :`.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// When the call was made, or ended if it is done, by its own machine's clock.
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// How long the record stands if nothing else happens: for a running call its lease, with the grace.
    /// `None` if it never expires.
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}

impl fmt::Debug for Peek {
    /// Shows no part of a stored result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek")
            .field("site", &self.site)
            .field("state", &self.state)
            .field("holder", &self.holder)
            .field("since", &self.since)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
