//! A counter of attempts in a window: a page id that may be submitted so many times.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Failure, Limited, SetupError, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::key::kind::Kind;
use crate::observe::EventKind;
use crate::protocol::retry::retry;
use crate::protocol::shared::Shared;
use crate::world;

/// Counts attempts at a thing, and allows so many in a window: submits of a page, a user's codes by mail.
///
/// The first attempt at a thing begins its window. Every later one is counted, also those beyond the limit, and none moves
/// the end: when the window is over, the next attempt is the first of a new one. Counting and setting the expiry are one
/// atomic step of the store, before your work begins; so nothing stands there for ever, whatever is killed when.
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
/// The work of a page that may be submitted once is better guarded by the attribute: it knows whether the work was done. A
/// counter does not; an attempt whose work failed is counted all the same.
///
/// What is counted is a key part, and only its digest becomes a part of a key. Clients choose page ids, so name the user beside
/// them. Counters of one name on one store count together, whatever their limits are.
///
/// A clone is the same counter.
#[derive(Debug, Clone)]
pub struct Counter {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    limit: u64,
    window: Duration,
}

/// An attempt within the limit: what [`Counter::attempt`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u64,
    limit: u64,
    window_remaining: Duration,
}

impl Idempotency {
    /// Sets up a counter that allows `limit` attempts at a thing in each `window`. Nothing is sent to the store.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`, the limit is 0, or the window is shorter than 1 ms.
    pub fn counter(
        &self,
        name: impl Into<Cow<'static, str>>,
        limit: u64,
        window: Duration,
    ) -> Result<Counter, SetupError> {
        let endpoint = Endpoint::try_new(name)?;
        if limit == 0 {
            let what = format!("the counter `{endpoint}` has the limit 0: it would allow nothing");
            return Err(SetupError::new(what));
        }
        if window < Duration::from_millis(1) {
            let what =
                format!("the counter `{endpoint}` has a window of {window:?}: use 1 ms or more");
            return Err(SetupError::new(what));
        }
        Ok(Counter {
            shared: Arc::clone(self.shared()),
            endpoint,
            limit,
            window,
        })
    }
}

impl Counter {
    /// Counts one more attempt at `thing`.
    ///
    /// Round trips: 1 on Redis and PostgreSQL, 2 on MySQL and MariaDB; on SQLite, which is in the process, 2 statements. However many
    /// attempts at one thing are made at once in a process, they come to a database one after the other, in their order and by one
    /// connection, so all together take as long as so many commits, and attempts at other things do not wait for them.
    ///
    /// A reply that is lost costs another try, within the handle's deadline, and the attempt is still counted once, as long as fewer
    /// than 32 others were counted in between. After that it is counted once more, so that a limit is never exceeded.
    ///
    /// # Errors
    ///
    /// [`Error::LimitReached`] says which attempt this is, and when the window ends. It is counted, too, and does not move that
    /// end. [`Error::Unavailable`]: the store gave no answer in time, and the attempt may be counted or not.
    ///
    /// # Cancellation
    ///
    /// Dropped, the attempt is counted or not. Nothing else is left behind.
    pub async fn attempt<T: KeyPart + ?Sized>(&self, thing: &T) -> Result<Attempt, Error> {
        let observers = self.shared.observers();
        let (site, key) = self
            .place(thing)
            .inspect_err(|error| observers.emit_refused(error))?;
        let operation = observers.begin(&site);
        let attempt = self.count(&site, &key).await;
        operation.finish(&attempt, EventKind::Counted);
        attempt
    }

    fn place<T: KeyPart + ?Sized>(&self, thing: &T) -> Result<(Site, String), Error> {
        let mut site = Site::without_key(self.endpoint.clone());
        let mut hasher = self.shared.keying().hasher();
        if hasher.part(thing).is_err() {
            let what = "what is counted could not be serialized";
            return Err(Error::InvalidKey(Failure::new(site, what, None)));
        }
        let fingerprint = hasher.finish();
        let (shared, endpoint) = (&self.shared, &self.endpoint);
        let key = shared.key_of(Kind::Count, format_args!("{endpoint}:{fingerprint}"));
        site.fingerprint = Some(fingerprint);
        Ok((site, key))
    }

    async fn count(&self, site: &Site, key: &str) -> Result<Attempt, Error> {
        let own = world::random_bits();
        let store = self.shared.store();
        let count = || store.count(key, own, self.window);
        let count = match retry(self.shared.deadline(), count).await {
            Ok(count) => count,
            Err(error) => return Err(Error::store(site.clone(), error)),
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
    /// Which attempt of the window this is, counted from 1.
    pub fn number(self) -> u64 {
        self.number
    }

    /// How many attempts the window allows.
    pub fn limit(self) -> u64 {
        self.limit
    }

    /// When the window ends, counted from now, by the store's clock.
    pub fn window_remaining(self) -> Duration {
        self.window_remaining
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of {}", self.number, self.limit)
    }
}
