//! A Bloom filter: a cheap answer to the question whether something was never seen.

pub(crate) mod builder;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::error::{Error, Failure, Site, Subject};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::observe::{Event, EventKind};
use crate::protocol::retry::{StoreAttempt, retry};
use crate::protocol::shared::Shared;
use crate::store::{BloomFilter, BloomStats, Hint};

/// A Bloom filter. It saves the look-up of members that were never seen. Cheap to clone.
///
/// Most requests are first requests. A service that begins with a look-up of an earlier request, for example of the order with
/// the same number, asks its database a question whose answer is nearly always "no". The filter answers it with about four
/// bytes of memory per member and one round trip to the store. The answer is [`Unseen`](Hint::Unseen) or
/// [`PerhapsSeen`](Hint::PerhapsSeen). A small share of the unseen members also gets `PerhapsSeen`: the error rate. **The
/// filter never proves that something is a duplicate.**
///
/// # What decides
///
/// The insert of a row with a unique key decides, in the transaction that does the work. Always make it:
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::{collections::HashSet, sync::Mutex};
/// # let orders = Mutex::new(HashSet::new());
/// # let contains = async |order| Ok::<_, idempotence::Error>(orders.lock().unwrap().contains(&order));
/// # let insert = async |order| Ok::<_, idempotence::Error>(orders.lock().unwrap().insert(order).then_some("the order"));
/// use std::time::Duration;
/// use idempotence::{Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let bloom = idempotency.bloom("orders.no", 100_000, 0.01, Duration::from_hours(24))?;
///
/// for number in [1, 2, 2] {
///     let order = bloom
///         .first_time(
///             &number,
///             // Runs only if the member was perhaps seen: `SELECT 1 FROM orders WHERE number = $1`
///             async { contains(number).await },
///             // Runs unless the look-up found the member: `INSERT INTO orders …`, and the rest of the work; `None` if the key is taken
///             async { insert(number).await },
///         )
///         .await?;
///     println!("{number}: {}", if order.is_some() { "done" } else { "was done before" });
/// }
/// # Ok(()) }
/// ```
///
/// A `SELECT` cannot decide. Suppose request 1 has marked the member, and its transaction is open. Request 2 gets
/// `PerhapsSeen`, and its `SELECT` does not find the row, because the row is not committed. If request 2 concludes that the
/// filter was wrong, and continues without an insert that can fail, both requests do the work. An insert of the same key waits
/// for the transaction of request 1, and then succeeds or fails.
///
/// A mark cannot decide either. A request that crashes between its mark and its commit has done nothing. Its retry gets
/// `PerhapsSeen`, does not find a row, and must run.
///
/// # A full, lost or unreachable filter
///
/// Such a filter costs look-ups, and nothing else. A *full* filter answers `PerhapsSeen` for more of the unseen members: see
/// [`stats`](Self::stats). After a restart or a fail-over has *lost* the filter, everything is unseen, and the insert finds the
/// duplicates. While the store is *unreachable*, [`first_time`](Self::first_time) treats everything as perhaps seen.
///
/// # Memory
///
/// The store has three buckets, each for half of the retention. A member is remembered for at least the retention after its last
/// mark, and for at most one and a half times the retention. Each bucket is large enough for the whole capacity at half of the
/// error rate, so that the rate holds even if all members come at once: two buckets can be full at the same time, and their
/// error rates add up. That is 33 bits per member for 1 %, and 47 bits for 0.1 %.
///
/// Redis has bitmaps. A bitmap takes all its memory at the first mark of its bucket, and at most 2³² bits (512 MB). In a cluster
/// one node has the whole filter. The memory store has bitmaps, too. Databases, and stores that do not implement
/// [`Store::bloom_insert`](crate::Store::bloom_insert), have no filters: on such a store the answer is always
/// [`PerhapsSeen`](Hint::PerhapsSeen).
///
/// Processes that share a filter must give it the same settings. Another capacity or error rate makes another filter, which is
/// empty at first.
#[doc(alias("布隆过滤器"))]
#[derive(Clone)]
pub struct Bloom {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    filter: BloomFilter,
}

impl Bloom {
    /// Marks a member, and returns whether it may have been marked before.
    ///
    /// After [`Unseen`](Hint::Unseen) you may skip a look-up, but never the insert that decides. After
    /// [`PerhapsSeen`](Hint::PerhapsSeen) you may skip nothing, because the member may be new.
    /// [`first_time`](Self::first_time) follows both rules.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use idempotence::{Hint, Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let bloom = idempotency.bloom("orders.no", 100_000, 0.01, Duration::from_hours(24))?;
    /// assert_eq!(bloom.hint("2026-11-21/42").await?, Hint::Unseen);
    /// assert_eq!(bloom.hint("2026-11-21/42").await?, Hint::PerhapsSeen);
    /// # Ok(()) }
    /// ```
    ///
    /// Round trips: one. It is sent once, and waits for at most a quarter of the [deadline](crate::Builder::deadline), because
    /// a longer wait would cost more than the look-up.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if the member cannot be serialized, [`Error::Unavailable`] or [`Error::Misconfigured`] if the
    /// store does not answer. After any error, treat the member as perhaps seen.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have marked the member. That does no harm.
    pub async fn hint<M: KeyPart + ?Sized>(&self, member: &M) -> Result<Hint, Error> {
        let site = self.site(member);
        let operation = self.shared.observers().begin(&site);
        let hint = self.mark(&site).await;
        match &hint {
            Ok(Hint::PerhapsSeen) => operation.succeed(EventKind::PerhapsSeen),
            _ => operation.finish(&hint, EventKind::FirstSeen),
        }
        hint
    }

    /// Runs `insert`, after `look_up` if the member was perhaps seen. Returns `None` if the member already exists.
    ///
    /// `look_up` returns whether a committed row with the member exists. While another transaction has not yet committed the
    /// row, `look_up` returns `false`, and `insert` decides.
    ///
    /// `insert` does the work, in a transaction whose first statement inserts the member under a unique key. It returns `Some`
    /// if it has inserted the row, and `None` if the row existed, as `sql::insert_once` reports.
    ///
    /// The member is marked before `look_up` and `insert`, and stays marked if they fail. For a retry the member is then
    /// perhaps seen, and the retry runs.
    ///
    /// Round trips: one, as for [`hint`](Self::hint), and the round trips of `look_up` and `insert`. If the store does not
    /// answer, the member counts as perhaps seen, and the event [`OperationFailed`](EventKind::OperationFailed) is emitted
    /// before the event of the decision. If `look_up` or `insert` fails, or the future is dropped, nothing is decided, and no
    /// event of a decision is emitted.
    ///
    /// # Errors
    ///
    /// The errors of `look_up` and `insert`. A failure of the filter is not an error.
    ///
    /// # Cancellation
    ///
    /// A dropped call drops `look_up` or `insert`. The member may stay marked. That does no harm.
    pub async fn first_time<M: KeyPart + ?Sized, T, E>(
        &self,
        member: &M,
        look_up: impl Future<Output = Result<bool, E>>,
        insert: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<T>, E> {
        let site = self.site(member);
        let observers = self.shared.observers();
        let began = observers.start_time();
        let hint = self.mark(&site).await.unwrap_or_else(|error| {
            observers.emit_since(began, Event::of_operation(&error));
            Hint::PerhapsSeen
        });
        let is_there = hint == Hint::PerhapsSeen && look_up.await?;
        let inserted = if is_there { None } else { insert.await? };
        let kind = match inserted {
            Some(_) => EventKind::FirstSeen,
            None => EventKind::SeenBefore,
        };
        observers.emit_since(began, Event::new(&site, kind));
        Ok(inserted)
    }

    /// How full the filter is. `None` if the store has no filters.
    ///
    /// Ask from time to time, and give the filter a larger [capacity](crate::BloomBuilder::capacity) before it is full. The store counts the
    /// bits of three buckets, which takes about a millisecond for two megabytes. Redis serves no other request meanwhile.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use idempotence::{Idempotency, MemoryStore};
    /// # let idempotency = Idempotency::new(MemoryStore::new());
    /// # let bloom = idempotency.bloom("orders.no", 100_000, 0.01, Duration::from_hours(24))?;
    /// if let Some(stats) = bloom.stats().await?
    ///     && stats.is_full()
    /// {
    ///     eprintln!("the filter is too small: {stats}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Round trips: one, repeated within the deadline if there is no answer.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] or [`Error::Misconfigured`] if the store does not answer.
    pub async fn stats(&self) -> Result<Option<BloomStats>, Error> {
        let (store, observers) = (self.shared.store(), self.shared.observers());
        let began = observers.start_time();
        let stats = retry(self.shared.deadline(), || store.bloom_stats(&self.filter)).await;
        stats.map_err(|error| {
            let error =
                Error::store_operation(Site::of(Subject::Bloom, self.endpoint.clone()), error);
            observers.emit_since(began, Event::of_operation(&error));
            error
        })
    }

    async fn mark(&self, site: &Site) -> Result<Hint, Error> {
        let Some(fingerprint) = &site.fingerprint else {
            let what = "the member could not be serialized";
            return Err(Error::InvalidKey(Failure::new(site.clone(), what, None)));
        };
        let store = self.shared.store();
        let mark = store.bloom_insert(&self.filter, fingerprint.as_bytes());
        let hint = StoreAttempt::first(mark, self.shared.deadline()).await;
        hint.map_err(|error| Error::store_operation(site.clone(), error))
    }

    /// The site of an operation for `member`, without a key if the member cannot be serialized.
    fn site<M: KeyPart + ?Sized>(&self, member: &M) -> Site {
        let mut hasher = self.shared.keying().hasher();
        let encoded = hasher.part(member);
        Site {
            fingerprint: encoded.is_ok().then(|| hasher.finish()),
            ..Site::of(Subject::Bloom, self.endpoint.clone())
        }
    }
}

impl fmt::Debug for Bloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bloom")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}
