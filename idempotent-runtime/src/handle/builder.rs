//! The settings of a handle.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::Idempotency;
use super::connect::connect;
use super::endpoints;
use crate::error::SetupError;
use crate::key::fingerprint::{Digest, Keying};
use crate::key::kind::is_prefix;
use crate::observe::{Observer, Observers};
use crate::policy::deadline;
use crate::protocol::shared::{Options, Shared};
use crate::result::codec::Codec;
use crate::result::options::ResultOptions;
use crate::settings::Settings;
use crate::settings::known::KnownEndpoints;
use crate::settings::registered::report_shared_names;
use crate::store::Store;

/// An [`Idempotency`] in the making.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    store: Arc<dyn Store>,
    prefix: String,
    digest: Digest,
    secret: Option<Secret>,
    deadline: Duration,
    retry_hint: RangeInclusive<Duration>,
    cleanup_limit: usize,
    result_options: ResultOptions,
    observers: Observers,
    settings: Option<Settings>,
}

struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Idempotency {
    /// A handle on `store` with every setting at its default.
    pub fn new(store: impl Store) -> Self {
        Builder::new(Arc::new(store)).finish(KnownEndpoints::default())
    }

    /// Starts a handle on `store` with settings of your own.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Digest, Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::new())
    ///     .prefix("shop")
    ///     .digest(Digest::Sha256)
    ///     .build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn builder(store: impl Store) -> Builder {
        Builder::new(Arc::new(store))
    }

    /// A handle on the store that `url` names, with every setting at its default. Short for
    /// [`builder_from_url`](Self::builder_from_url) and [`build`](Builder::build).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::SetupError> {
    /// use idempotence::Idempotency;
    ///
    /// let idempotency = Idempotency::from_url("memory:").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`builder_from_url`](Self::builder_from_url).
    pub async fn from_url(url: &str) -> Result<Self, SetupError> {
        Self::builder_from_url(url).await?.build()
    }

    /// Connects to the store that `url` names, and starts a handle on it. The feature of the store must be enabled:
    ///
    /// * `memory:`, always;
    /// * `redis`: `redis://[user:password@]host[:port][/database]` and the other URLs of
    ///   `RedisStore::connect`, for clusters, sentinels, sockets and TLS;
    /// * `postgres`: `postgres://[user[:password]@]host[:port]/database`;
    /// * `mysql`: `mysql://[user[:password]@]host[:port]/database`, and `mariadb://…`;
    /// * `sqlite`: `sqlite:file`.
    ///
    /// Missing tables of a database are created. Expired records are not purged: connect the store yourself and call
    /// `SqlStore::purge_every`.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::SetupError> {
    /// use idempotence::Idempotency;
    ///
    /// let idempotency = Idempotency::builder_from_url("memory:")
    ///     .await?
    ///     .prefix("shop")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If no store of this build has the scheme of the URL, or the server cannot be reached or refuses the connection
    /// (see `connect` of the stores). The text never contains the URL's password.
    pub async fn builder_from_url(url: &str) -> Result<Builder, SetupError> {
        connect(url).await.map(Builder::new)
    }
}

impl Builder {
    fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            prefix: "idem".to_owned(),
            digest: Digest::default(),
            secret: None,
            deadline: deadline::DEFAULT,
            retry_hint: Duration::from_secs(1)..=Duration::from_secs(10),
            cleanup_limit: 10_000,
            result_options: ResultOptions::default(),
            observers: Observers::default(),
            settings: None,
        }
    }

    /// Sets what every key begins with, so that programs can share a store. Default: `idem`.
    ///
    /// Different prefixes never share a key, also if one begins with the other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the digest of the key parts. Default: [`Digest::Md5`].
    pub fn digest(mut self, digest: Digest) -> Self {
        self.digest = digest;
        self
    }

    /// Makes fingerprints an HMAC under `secret`, so that a reader of the store cannot guess the
    /// key parts. All processes that share keys need the same one.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secret = Some(Secret(secret.as_ref().to_vec()));
        self
    }

    /// Sets how long a call waits for the store before its body, and again after it, all tries
    /// included. Default: 1 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the shortest and the longest time after which a duplicate of a running call should be sent again, according to
    /// [`Error::retry_after`](crate::Error::retry_after), the header `Retry-After` and the metadata of tonic. In between it is as
    /// long as the call has run. Default: 1 s to 10 s.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use std::time::Duration;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::new())
    ///     .retry_hint(Duration::from_millis(250)..=Duration::from_secs(2))
    ///     .build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn retry_hint(mut self, hints: RangeInclusive<Duration>) -> Self {
        self.retry_hint = hints;
        self
    }

    /// Sets how many clean-ups may wait for the store at once, so that a store that is away for long does not fill the memory.
    /// Default: 10,000.
    ///
    /// A clean-up takes back what was sent for a caller who went away before the store had answered, or got no answer: a
    /// claim, the redemption of a token, a member of a seen-set. Everything that [`drain`](Idempotency::drain) waits for counts.
    /// One more than these is not taken back, and the event [`NotWithdrawn`](crate::EventKind::NotWithdrawn) tells of it:
    /// the claim holds its key until its lease ends, the token stays used, the member stays in its set. With 0 nothing is
    /// taken back.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::new()).cleanup_limit(100_000).build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn cleanup_limit(mut self, most: usize) -> Self {
        self.cleanup_limit = most;
        self
    }

    /// Sets how the results of `replay` are written from now on. Those of any codec are read. Default: JSON.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.result_options.codec = codec;
        self
    }

    /// Sets how large a result of `replay` may be to be kept, in bytes as it is written. Default: 1 MiB.
    ///
    /// The call of a larger one succeeds; its duplicates are refused with
    /// [`Error::ResultUnavailable`](crate::Error::ResultUnavailable), and the body is not run again.
    ///
    /// A record with a result that is larger than this, and larger than the default, is refused with
    /// [`Error::ForeignRecord`](crate::Error::ForeignRecord), and no more of it is read than it takes to know that, where the store can cut
    /// it. So while processes with different limits share a store, as during a deploy, those that keep results of more than
    /// 1 MiB come last: raise the limit everywhere before the larger results are made, and lower it when their `ttl` is over.
    pub fn largest_result(mut self, bytes: usize) -> Self {
        self.result_options.max_bytes = bytes;
        self
    }

    /// Has `observer` told what happens to the calls of the handle. Several are told in the order in
    /// which they were added.
    ///
    /// A closure is one if it names the type of what it takes: `|event: &Event<'_>| …`.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// Sets where settings of endpoints are read from, now and at each [`reload`](Idempotency::reload). Default: nowhere,
    /// so that only the attributes count.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Makes the handle. With the first of a process, functions that share a `name` are an error in the log: equal calls of
    /// them would be answered by each other's records.
    ///
    /// # Errors
    ///
    /// If the prefix is not 1 to 64 of the characters `A-Z a-z 0-9 . _ : -`, the secret is empty, the
    /// deadline or an end of the retry hint is not between 1 ms and 1 h, the retry hint ends before it begins, or anything is
    /// wrong with the [`Settings`].
    pub fn build(mut self) -> Result<Idempotency, SetupError> {
        if !is_prefix(&self.prefix) {
            return Err(SetupError::new(format!(
                "`{}` cannot be a prefix: use 1 to 64 of `A-Z a-z 0-9 . _ : -`",
                self.prefix.escape_debug()
            )));
        }
        if self
            .secret
            .as_ref()
            .is_some_and(|secret| secret.0.is_empty())
        {
            return Err(SetupError::new("the secret is empty, so it hides nothing"));
        }
        if self.deadline < Duration::from_millis(1) || self.deadline > Duration::from_hours(1) {
            return Err(SetupError::new(format!(
                "a deadline of {:?} makes no sense: use between 1 ms and 1 h",
                self.deadline
            )));
        }
        let sensible = Duration::from_millis(1)..=Duration::from_hours(1);
        let (shortest, longest) = (self.retry_hint.start(), self.retry_hint.end());
        if !sensible.contains(shortest) || !sensible.contains(longest) || shortest > longest {
            return Err(SetupError::new(format!(
                "a retry hint of {shortest:?} to {longest:?} cannot be given: use two durations between 1 ms and 1 h, the shorter one first"
            )));
        }
        let known = KnownEndpoints::new(self.settings.take())?;
        Ok(self.finish(known))
    }

    fn finish(self, known: KnownEndpoints) -> Idempotency {
        report_shared_names();
        self.store
            .longest_record(self.result_options.longest_record());
        let keying = |digest| match &self.secret {
            Some(secret) => Keying::with_secret(digest, &secret.0),
            None => Keying::new(digest),
        };
        let known = Arc::new(known.with_prefix(self.prefix.clone()));
        endpoints::add(&known);
        Idempotency(Arc::new(Shared::new(Options {
            keying: keying(self.digest),
            token_keying: keying(Digest::Sha256),
            known,
            store: self.store,
            prefix: self.prefix,
            deadline: self.deadline,
            retry_hint: self.retry_hint,
            result_options: self.result_options,
            observers: self.observers,
            cleanup_limit: self.cleanup_limit,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::endpoint::Endpoint;
    use crate::key::fingerprint::Fingerprint;

    #[tokio::test]
    async fn options_apply_to_a_handle_that_is_made_from_a_url() {
        let builder = Idempotency::builder_from_url("memory:").await;
        let builder = builder.expect("the store in memory is always there");
        let deadline = Duration::from_secs(7);
        let handle = builder.prefix("shop").secret("pepper").deadline(deadline);
        let handle = handle.build().expect("the options are valid");
        let shared = handle.shared();
        assert_eq!(shared.deadline(), deadline);
        let parts = Fingerprint::of(&(42,)).expect("an integer can be a key");
        let key = shared.key(&Endpoint::named("orders.pay"), &parts);
        assert!(key.starts_with("shop:"), "{key}");
        let hasher = |handle: &Idempotency| handle.shared().keying().hasher().finish();
        let plain = Idempotency::from_url("memory:").await;
        let plain = plain.expect("the store in memory is always there");
        assert_ne!(hasher(&handle), hasher(&plain), "the secret applies");
    }

    #[tokio::test]
    async fn a_handle_from_a_url_checks_its_options() {
        let builder = Idempotency::builder_from_url("memory:").await;
        let builder = builder.expect("the store in memory is always there");
        builder.prefix("").build().expect_err("the prefix is empty");
        Idempotency::builder_from_url("memory:x")
            .await
            .expect_err("no store has this URL");
    }
}
