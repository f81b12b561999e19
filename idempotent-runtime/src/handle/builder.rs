//! The options of a handle.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::Idempotency;
use super::connect::connect;
use super::endpoints;
#[cfg(feature = "toml")]
use super::watch::Watch;
use crate::error::SetupError;
use crate::key::fingerprint::{Digest, Keying};
use crate::key::kind::why_no_prefix;
use crate::key::name::shown;
use crate::observe::{Observer, Observers};
use crate::policy::deadline;
use crate::protocol::shared::{Options, Shared};
use crate::record::sealing::{Sealing, Unsealed};
use crate::result::codec::Codec;
use crate::result::options::ResultOptions;
use crate::result::records::RecordFormat;
use crate::settings::Settings;
use crate::settings::known::KnownEndpoints;
use crate::settings::registered::report_shared_names;
use crate::store::Store;

/// Builds an [`Idempotency`].
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
    logs_holder: bool,
    result_options: ResultOptions,
    pub(super) sealing: Arc<dyn Sealing>,
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
    /// A handle on `store` with every option at its default.
    pub fn new(store: impl Store) -> Self {
        Builder::new(Arc::new(store)).finish(KnownEndpoints::default())
    }

    /// Starts a handle on `store`, to set its options.
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

    /// A handle on the store that `url` names, with every option at its default. Short for
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
    /// * `sqlite`: `sqlite:file`;
    /// * `dynamodb`: `dynamodb://table?region=…`;
    /// * `etcd`: `etcd://[user:password@]host[:port],…`, and `etcds://…`;
    /// * the schemes that other crates [register](crate::store::UrlScheme).
    ///
    /// Missing tables of a database are created. Expired records are purged about every ten minutes, unless the URL has
    /// `?purge=false`.
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
            logs_holder: false,
            result_options: ResultOptions::default(),
            sealing: Arc::new(Unsealed),
            observers: Observers::new(),
            settings: None,
        }
    }

    /// Sets the prefix of every key, so that programs can share a store. Default: `idem`.
    ///
    /// Different prefixes never share a key, even if one begins with the other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the digest of the key parts. Default: [`Digest::Md5`].
    pub fn digest(mut self, digest: Digest) -> Self {
        self.digest = digest;
        self
    }

    /// Makes fingerprints an HMAC under `secret`, so that a reader of the store cannot guess the key parts. All processes that share keys
    /// need the same secret.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secret = Some(Secret(secret.as_ref().to_vec()));
        self
    }

    /// Sets how long a call waits for the store before its body, and again after its body, with all attempts. Default: 1 s.
    ///
    /// It is also the limit for a transaction that the guard begins: for its beginning, for each statement of the row, and for the `COMMIT`.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the shortest and the longest [`Error::retry_after`](crate::Error::retry_after) of a duplicate of a running call.
    /// This time is also in the header `Retry-After` and in the metadata of tonic. Between both limits it is the time for which
    /// the call has run. Default: 1 s to 10 s.
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

    /// Sets the upper bound on background work, so that a long outage cannot exhaust memory. Default: 10,000.
    ///
    /// A clean-up undoes the requests of a call that was dropped before the store answered, or that got no answer: a claim, the
    /// redemption of a token, a member of a seen-set. A handle sends at most 64 clean-ups at a time, so that they do not hold up callers. All work that [`drain`](Idempotency::drain) waits for counts. Above the
    /// bound a clean-up is dropped and reported by the event [`NotWithdrawn`](crate::EventKind::NotWithdrawn): the key stays
    /// taken until the lease of the claim expires, the token stays used, the member stays in its set. With 0 nothing is undone.
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

    /// Sets how the results of `replay` are written. Results of every codec are read. Default: JSON.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.result_options.codec = codec;
        self
    }

    /// Sets the size of the largest result of `replay` that is stored, in encoded bytes. Default: 1 MiB. Of a response of HTTP only
    /// the body counts.
    ///
    /// A call with a larger result succeeds. Its duplicates are refused with
    /// [`Error::ResultUnavailable`](crate::Error::ResultUnavailable), and the body does not run again.
    ///
    /// A stored record with a result above this limit and above the default is refused with
    /// [`Error::ForeignRecord`](crate::Error::ForeignRecord) when it is read. A store that can cut the record sends only its
    /// beginning. So if processes share a store, as during a deploy, raise the limit in all of them before larger results are
    /// made, and lower it after the `ttl` of these results.
    pub fn largest_result(mut self, bytes: usize) -> Self {
        self.result_options.max_bytes = bytes;
        self
    }

    /// Sets whether the event [`Stuck`](crate::EventKind::Stuck) names the process of the holder, as `host:pid`. Default: false,
    /// because a log may have readers who must not know the names of machines.
    pub fn log_holder(mut self, logs_holder: bool) -> Self {
        self.logs_holder = logs_holder;
        self
    }

    /// Adds an observer. Observers run in the order in which they were added.
    ///
    /// A closure must name the type of its argument: `|event: &Event<'_>| …`.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// Sets where settings of endpoints are read, in [`build`](Self::build) and at each [`reload`](Idempotency::reload). Default: nowhere,
    /// so that only the attributes count.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Makes the handle. The first handle of a process logs an error for functions that share a `name`, because their equal calls would
    /// get each other's results.
    ///
    /// # Errors
    ///
    /// If the prefix is not 1 to 64 of the characters `A-Z a-z 0-9 . _ : -`, the secret is empty, the deadline or an end of the
    /// retry hint is not between 1 ms and 1 h, the retry hint ends before it begins, or the [`Settings`] have a mistake or cannot be
    /// watched.
    pub fn build(mut self) -> Result<Idempotency, SetupError> {
        if let Some(why) = why_no_prefix(&self.prefix) {
            return Err(SetupError::new(format!(
                "invalid prefix `{}`: it {why}; use 1 to 64 of `A-Z a-z 0-9 . _ : -`",
                shown(&self.prefix)
            )));
        }
        if self
            .secret
            .as_ref()
            .is_some_and(|secret| secret.0.is_empty())
        {
            return Err(SetupError::new(
                "invalid secret: it is empty, so it would hide nothing; use random bytes, or no secret",
            ));
        }
        if self.deadline < Duration::from_millis(1) || self.deadline > Duration::from_hours(1) {
            return Err(SetupError::new(format!(
                "invalid deadline: must be between 1 ms and 1 h, got {:?}",
                self.deadline
            )));
        }
        let allowed = Duration::from_millis(1)..=Duration::from_hours(1);
        let (shortest, longest) = (self.retry_hint.start(), self.retry_hint.end());
        if !allowed.contains(shortest) || !allowed.contains(longest) || shortest > longest {
            return Err(SetupError::new(format!(
                "invalid retry hint: must be two durations between 1 ms and 1 h, the shorter first, got {shortest:?} to {longest:?}"
            )));
        }
        #[cfg(feature = "toml")]
        let watch = Watch::from_settings(self.settings.as_ref())?;
        let known = KnownEndpoints::new(self.settings.take())?;
        let handle = self.finish(known);
        #[cfg(feature = "toml")]
        if let Some(watch) = watch {
            watch.start(handle.shared().known_endpoints());
        }
        Ok(handle)
    }

    fn finish(self, known: KnownEndpoints) -> Idempotency {
        report_shared_names();
        self.store
            .longest_record(self.result_options.longest_record());
        let keying = |digest| match &self.secret {
            Some(secret) => Keying::with_secret(digest, &secret.0),
            None => Keying::new(digest),
        };
        let records = RecordFormat {
            options: self.result_options,
            sealing: self.sealing,
            name_keys: self.store.local().is_none(),
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
            records,
            observers: self.observers,
            cleanup_limit: self.cleanup_limit,
            logs_holder: self.logs_holder,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::endpoint::Endpoint;
    use crate::key::fingerprint::Fingerprint;
    use crate::store::memory::MemoryStore;

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

    #[test]
    fn the_error_of_an_invalid_prefix_names_what_is_allowed() {
        let text = |prefix: &str| {
            let builder = Idempotency::builder(MemoryStore::new()).prefix(prefix);
            builder
                .build()
                .expect_err("the prefix is invalid")
                .to_string()
        };
        let allowed = "use 1 to 64 of `A-Z a-z 0-9 . _ : -`";
        assert_eq!(
            text("shop/eu"),
            format!("invalid prefix `shop/eu`: it has the character '/'; {allowed}")
        );
        assert_eq!(
            text(""),
            format!("invalid prefix ``: it is empty; {allowed}")
        );
        let long = "a".repeat(65);
        assert_eq!(
            text(&long),
            format!("invalid prefix `{long}`: it is longer than 64 bytes; {allowed}")
        );
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
