//! A Bloom filter: it says cheaply that something was never seen.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Failure, SetupError, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::key::kind::Kind;
use crate::observe::{Event, EventKind};
use crate::protocol::retry::{Attempt, retry};
use crate::protocol::shared::Shared;
use crate::store::{BloomFilter, BloomStats, ERROR_RATES, Hint, MOST_BITS, Shape};

/// A prefilter: for what was never seen, it saves the look-up whether it was.
///
/// Most requests come for the first time. A service that begins by looking for an earlier one (the order with this number,
/// say) asks its database a question that nearly always has the answer "no". The filter answers it in four bytes of memory
/// a member or so, and one round trip to the store. It says [`Unseen`](Hint::Unseen), or
/// [`PerhapsSeen`](Hint::PerhapsSeen): it takes some of the unseen for seen, as many as its error rate, and **it never
/// knows that something is a duplicate.**
///
/// # What decides
///
/// The insert of a row with a unique key, in the transaction that does the work. It is made whatever the filter says:
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
///             // Only for what was perhaps seen: `SELECT 1 FROM orders WHERE number = $1`
///             async { contains(number).await },
///             // Unless that found it: `INSERT INTO orders …`, and what belongs to it; `None` if the key is taken
///             async { insert(number).await },
///         )
///         .await?;
///     println!("{number}: {}", if order.is_some() { "done" } else { "was done before" });
/// }
/// # Ok(()) }
/// ```
///
/// A `SELECT` cannot decide. Request 1 is marked, and is inside its transaction. Request 2 is perhaps seen; it looks, and does
/// not find the row that is not committed yet. If it takes that for an error of the filter and goes on without an insert that
/// can fail, both run. An insert of the same key waits for the transaction of request 1, and then says which of the two it was.
///
/// A mark does not decide either. A request that crashes between its mark and its commit has done nothing; its retry is perhaps
/// seen, is not found, and has to run.
///
/// # When it is full, lost, or away
///
/// It costs look-ups, and nothing else. *Full*, it takes more of the unseen for seen: see [`stats`](Self::stats). *Lost*, by
/// a restart or a fail-over, everything is unseen once more, and the insert finds what is not. *Away*,
/// [`first_time`](Self::first_time) takes everything for perhaps seen.
///
/// # What is kept
///
/// Three buckets in the store, each of half a retention: a member is remembered for the retention at least, and for one and a
/// half at most, from when it was marked last. Each bucket is as large as the whole capacity needs for half of the error rate, so that
/// the rate holds also when all members come at once. That is 33 bits a member for 1 %, and 47 for 0.1 %.
///
/// Redis keeps bitmaps, or filters of its module `bf` where all servers have that and the user may use it. A bitmap
/// has all its memory from the first mark of a bucket on, and 2³² bits (512 MB) at most. In a cluster one node has the
/// whole filter. The memory store has bitmaps, too. Databases, and stores that do not implement
/// [`Store::bloom_insert`](crate::Store::bloom_insert), have no filters: there everything was perhaps seen.
///
/// Processes that share a filter give it the same settings: with another capacity or error rate it is another filter, which
/// begins empty.
#[derive(Clone)]
pub struct Bloom {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    filter: BloomFilter,
}

impl Idempotency {
    /// A Bloom filter with this name (at most 128 of `A-Z a-z 0-9 . _ -`), made for `capacity` members within the
    /// `retention`, of which at most `error_rate` are taken for seen when they were not: 0.01 is 1 %.
    ///
    /// Nothing is sent, and the store has no filter before the first mark.
    ///
    /// # Errors
    ///
    /// If the name is not one; the capacity or the retention is zero; the error rate is not between 10⁻⁹ and 0.5; or a
    /// bucket would need more than 2³² bits, which is what a string of Redis has: 389 million members for 1 %.
    pub fn bloom(
        &self,
        name: impl Into<Cow<'static, str>>,
        capacity: u64,
        error_rate: f64,
        retention: Duration,
    ) -> Result<Bloom, SetupError> {
        let endpoint = Endpoint::try_new(name)?;
        let refused = |why: String| {
            let what = format!("the Bloom filter `{endpoint}` cannot be: {why}");
            Err(SetupError::new(what))
        };
        if capacity == 0 || retention.is_zero() {
            return refused("its capacity and its retention must be more than zero".to_owned());
        }
        if !ERROR_RATES.contains(&error_rate) {
            return refused(format!(
                "an error rate of {error_rate} makes no sense: use between 0.000000001 and 0.5"
            ));
        }
        let bits = Shape::bits(capacity, error_rate);
        if bits > MOST_BITS {
            return refused(format!(
                "{capacity} members with an error rate of {error_rate} need {bits} bits, and a string of Redis has \
                 2^32 (512 MB): use a smaller capacity, a higher error rate, or several filters"
            ));
        }
        // The braces keep all buckets on one node of a cluster.
        let key = self
            .shared()
            .key_of(Kind::Bloom, format_args!("{{{endpoint}}}"));
        Ok(Bloom {
            shared: Arc::clone(self.shared()),
            endpoint,
            filter: BloomFilter {
                key,
                capacity,
                error_rate,
                retention,
            },
        })
    }
}

impl Bloom {
    /// Marks a member, and says whether it may have been marked before.
    ///
    /// [`Unseen`](Hint::Unseen) lets you skip a look-up, and never the insert that decides.
    /// [`PerhapsSeen`](Hint::PerhapsSeen) lets you skip nothing: it is not to be called a duplicate.
    /// [`first_time`](Self::first_time) does both right.
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
    /// One round trip. It is sent once, and waited for no longer than a quarter of the
    /// [deadline](crate::Builder::deadline): it is not worth more, for all that it saves is a look-up.
    ///
    /// # Errors
    ///
    /// If the member cannot be encoded, or the store gives no answer. Whatever it is: the member is to be taken for
    /// perhaps seen.
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

    /// Runs `insert`, and asks `look_up` before if the member was perhaps seen; `None` if it is there already.
    ///
    /// `look_up` says whether the member is there for certain: a committed row. It may be missing, because another
    /// transaction has not committed it yet: then `insert` decides.
    ///
    /// `insert` does the work, in a transaction whose first statement inserts the member under a unique key: `Some` if it did,
    /// `None` if it was there, as `sql::insert_once` tells.
    /// The member is marked before either of them is asked, and stays marked when they fail: a retry is perhaps
    /// seen, and runs.
    ///
    /// One round trip to the store, as [`hint`](Self::hint). If it gives no answer, the member was perhaps seen, and the event
    /// [`OperationFailed`](EventKind::OperationFailed) tells of it, before the one event of the decision. When `look_up` or
    /// `insert` fails, or the future is dropped, nothing is decided, and there is no event of a decision.
    ///
    /// # Errors
    ///
    /// Those of `look_up` and `insert`. The filter has none.
    ///
    /// # Cancellation
    ///
    /// As that of `look_up` and `insert`.
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

    /// Says how full the filter is; `None` if the store has none.
    ///
    /// Ask now and then, and [make it larger](Idempotency::bloom) in time. It counts the bits of three buckets, which takes the
    /// store a millisecond for two megabytes or so; Redis serves nobody else meanwhile.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use idempotence::{Idempotency, MemoryStore};
    /// # let idempotency = Idempotency::new(MemoryStore::new());
    /// # let bloom = idempotency.bloom("orders.no", 100_000, 0.01, Duration::from_hours(24))?;
    /// if let Some(fill) = bloom.stats().await?
    ///     && fill.is_full()
    /// {
    ///     eprintln!("the filter is too small: {fill}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// One round trip, repeated within the deadline if there is no answer.
    ///
    /// # Errors
    ///
    /// If the store gives no answer.
    pub async fn stats(&self) -> Result<Option<BloomStats>, Error> {
        let (store, observers) = (self.shared.store(), self.shared.observers());
        let began = observers.start_time();
        let fill = retry(self.shared.deadline(), || store.bloom_stats(&self.filter)).await;
        fill.map_err(|error| {
            let error = Error::store(Site::without_key(self.endpoint.clone()), error);
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
        let hint = Attempt::first(mark, self.shared.deadline()).await;
        hint.map_err(|error| Error::store(site.clone(), error))
    }

    /// Without a fingerprint if the member cannot be encoded.
    fn site<M: KeyPart + ?Sized>(&self, member: &M) -> Site {
        let mut hasher = self.shared.keying().hasher();
        let encoded = hasher.part(member);
        Site {
            endpoint: self.endpoint.clone(),
            fingerprint: encoded.is_ok().then(|| hasher.finish()),
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
