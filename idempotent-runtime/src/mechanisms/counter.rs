//! A counter of attempts in a window: for example of the submits of one page.

pub(crate) mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Failure, Limited, Site, Subject};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::key::kind::RecordKind;
use crate::observe::EventKind;
use crate::protocol::retry::retry;
use crate::protocol::shared::Shared;
use crate::world;

/// Counts the attempts at a thing, and allows a limited number of attempts in a window: for example submits of a page, or codes
/// that are mailed to a user.
///
/// The first attempt at a thing starts its window. Every later attempt is counted, also above the limit. No attempt moves the
/// end of the window. After the end of the window the next attempt is the first of a new window. Counting and setting the
/// expiry are one atomic step of the store, before your work begins. So no counter stays in the store permanently, even after a
/// crash.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use idempotence::{Error, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let submits = idempotency.counter("pages.submit", 2, Duration::from_mins(10))?;
///
/// let (user_id, page_id) = (7, "goods-42/5f3c");
/// assert_eq!(submits.attempt(&(user_id, page_id)).await?.number(), 1);
/// assert_eq!(submits.attempt(&(user_id, page_id)).await?.to_string(), "attempt 2 of 2");
///
/// let refused = submits.attempt(&(user_id, page_id)).await.unwrap_err();
/// assert!(matches!(&refused, Error::LimitReached(limited) if limited.attempt() == 3));
/// assert!(refused.retry_after().unwrap() <= Duration::from_mins(10));
/// # Ok(()) }
/// ```
///
/// If a page may be submitted only once, guard its work by the attribute `#[idempotent]` or by
/// [`Idempotency::call`](crate::Idempotency::call) instead: a guarded call knows whether the work was done. A counter also counts an attempt whose work failed.
///
/// The counted thing is a key part, and only its digest becomes part of a key. Clients choose page ids, so count the pair of
/// user and page: otherwise another client could use up the attempts of a page. Counters with one name on one store count
/// together, even if their limits differ.
///
/// A clone is the same counter.
#[derive(Debug, Clone)]
pub struct Counter {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    limit: u64,
    window: Duration,
}

/// An attempt within the limit, as [`Counter::attempt`] returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u64,
    limit: u64,
    window_remaining: Duration,
}

impl Counter {
    /// Counts one more attempt at `thing`.
    ///
    /// Round trips: 1 on Redis and PostgreSQL, 2 on MySQL and MariaDB, 2 statements on SQLite, which runs inside the process.
    /// On a database, concurrent attempts at one thing in a process are sent one after the other, in their order, on one
    /// connection. Together they take as long as that many commits. Attempts at other things do not wait for them.
    ///
    /// A lost reply costs a second request, within the handle's deadline. The attempt is still counted once if fewer than 32
    /// other attempts were counted in between, otherwise twice. An attempt that is counted twice uses up the limit earlier, so
    /// the limit is never exceeded.
    ///
    /// # Errors
    ///
    /// [`Error::LimitReached`] with the number of the attempt and the end of the window. The attempt is counted, and does not
    /// move the end of the window. [`Error::Unavailable`] if the store did not answer in time: the attempt may be counted or
    /// not. [`Error::Misconfigured`] if the store cannot serve the request with its current setup. [`Error::InvalidKey`] if the
    /// thing cannot be serialized.
    ///
    /// # Cancellation
    ///
    /// The attempt of a dropped call may be counted or not. Nothing else remains in the store.
    pub async fn attempt<T: KeyPart + ?Sized>(&self, thing: &T) -> Result<Attempt, Error> {
        let observers = self.shared.observers();
        let (site, key) = self
            .site_and_key(thing)
            .inspect_err(|error| observers.emit_refused(error))?;
        let operation = observers.begin(&site);
        let attempt = self.count(&site, &key).await;
        operation.finish(&attempt, EventKind::Counted);
        attempt
    }

    fn site_and_key<T: KeyPart + ?Sized>(&self, thing: &T) -> Result<(Site, String), Error> {
        let mut site = Site::of(Subject::Counter, self.endpoint.clone());
        let mut hasher = self.shared.keying().hasher();
        if hasher.part(thing).is_err() {
            let what = "the counted thing could not be serialized";
            return Err(Error::InvalidKey(Failure::new(site, what, None)));
        }
        let fingerprint = hasher.finish();
        let (shared, endpoint) = (&self.shared, &self.endpoint);
        let key = shared.key_of(RecordKind::Count, format_args!("{endpoint}:{fingerprint}"));
        site.fingerprint = Some(fingerprint);
        Ok((site, key))
    }

    async fn count(&self, site: &Site, key: &str) -> Result<Attempt, Error> {
        let own = world::random_bits();
        let store = self.shared.store();
        let send = || store.count(key, own, self.window);
        let count = match retry(self.shared.deadline(), send).await {
            Ok(count) => count,
            Err(error) => return Err(Error::store_operation(site.clone(), error)),
        };
        if count.attempt > self.limit {
            let limited = Limited::new(site.clone(), count.attempt, self.limit, count.remaining);
            return Err(Error::LimitReached(limited));
        }
        Ok(Attempt {
            number: count.attempt,
            limit: self.limit,
            window_remaining: count.remaining,
        })
    }
}

impl Attempt {
    /// The number of the attempt in its window, counted from 1.
    pub fn number(self) -> u64 {
        self.number
    }

    /// How many attempts the window allows.
    pub fn limit(self) -> u64 {
        self.limit
    }

    /// The time until the window ends, by the clock of the store.
    pub fn window_remaining(self) -> Duration {
        self.window_remaining
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of {}", self.number, self.limit)
    }
}
