//! What every store answers, and what stores answer by default.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::answer::{Claim, Count, Entry, Hint, Swap};
use super::durability::Durability;
use super::filter::{BloomFilter, BloomStats};
use super::finding::Finding;
use super::queue::Queues;
use crate::error::store::StoreError;
use crate::record::count::{self, Next};
use crate::world;

/// Keeps records under keys, changing them by compare-and-set only. The page of [`store`](crate::store) has a whole one.
///
/// Every operation may be sent twice, because a reply may be lost: the second send changes nothing
/// that the first one did not, and never tells the caller that its own record is another's. (A
/// second [`remove`](Self::remove) answers [`Swap::Absent`].)
///
/// Keys are at most 512 bytes of UTF-8 without NUL. Times to live are at least one millisecond; a store that counts in coarser units rounds up.
/// Whatever is not known to live is absent: an expired record is never returned or compared with.
///
/// # Hints
///
/// A call that waits for a key asks for it again and again. A store that can tell it of a change
/// implements [`replace_and_notify`](Self::replace_and_notify), [`remove_and_notify`](Self::remove_and_notify)
/// and [`subscribe`](Self::subscribe); the others leave them out.
///
/// # Beyond the four
///
/// Tokens, counters, seen-sets and Bloom filters ask for more: [`exchange`](Self::exchange), [`count`](Self::count),
/// [`set_insert`](Self::set_insert), [`set_remove`](Self::set_remove), [`bloom_insert`](Self::bloom_insert) and [`bloom_stats`](Self::bloom_stats). Each has a default that is made
/// of the four; a store that can do better implements it.
///
/// # A store around a store
///
/// What is made of the four takes more steps than what the store inside does in one. So a store around another one implements
/// [`Wrap`](super::Wrap): that forwards every operation, and a `Wrap` is a `Store`.
///
/// # Cancellation
///
/// A dropped future leaves the operation either applied or not, never half.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "not a store",
    note = "implement `Store` for a store of its own, or `Wrap` for a store around another one"
)]
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Puts `value` under `key` for `ttl` if nothing lives there.
    ///
    /// A stored value equal to `value` is the caller's own, from a try whose reply was lost: that is
    /// [`Claim::Claimed`] too, and its time to live is left as it is.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError>;

    /// Puts `value` under `key` for `ttl` if `expected` stands there, byte for byte.
    ///
    /// When both are equal, only the time to live is set (a store without room for data accepts
    /// that). When `value` already stands there, nothing is changed and the answer is
    /// [`Swap::Done`].
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError>;

    /// Removes what stands under `key` if that is `expected`, byte for byte.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been removed.
    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError>;

    /// Reads what stands under `key` and how long it will.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// Does what [`replace`](Self::replace) does, and tells those who listen by
    /// [`subscribe`](Self::subscribe), in the same round trip.
    ///
    /// The telling is a hint: it may fail unnoticed, and never changes the answer. By default this
    /// is [`replace`](Self::replace), and nobody is told.
    ///
    /// # Errors
    ///
    /// Those of [`replace`](Self::replace).
    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace(key, expected, value, ttl).await
    }

    /// Does what [`remove`](Self::remove) does, and tells those who listen by
    /// [`subscribe`](Self::subscribe), in the same round trip.
    ///
    /// The telling is a hint: it may fail unnoticed, and never changes the answer. By default this
    /// is [`remove`](Self::remove), and nobody is told.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove).
    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove(key, expected).await
    }

    /// Begins to listen for changes of what stands under `key`.
    ///
    /// When this returns, listening has begun: a change told after that is heard. `None`, which is
    /// the default, says that the store gives no hints, or cannot now.
    ///
    /// [`changed`](watch::Receiver::changed) of the receiver ends with each hint, and with an error
    /// when no more hints will come (a connection broke): then the caller has to ask by itself. No
    /// rule depends on a hint: it may be lost, late, or about nothing, and a record that expires
    /// gives none. Dropping the receiver ends the listening.
    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        let _ = key;
        None
    }

    /// Puts `value` in the place of `expected`, byte for byte, for as long as that would have stood.
    ///
    /// The answers are those of [`replace`](Self::replace); what never expires is not ours, and not replaced. By default this is
    /// [`get`](Self::get) and then [`replace`](Self::replace) with what is left by then, so that the end may move by as much
    /// as one of the two is quicker than the other.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let asked = Instant::now();
        match self.get(key).await? {
            None => Ok(Swap::Absent),
            Some(Entry {
                value: standing,
                ttl: Some(ttl),
            }) if standing == expected => {
                // Without this each of many exchanges would add the time that it takes.
                let remaining = ttl.saturating_sub(asked.elapsed());
                if remaining < SHORTEST_TTL {
                    // To put it for the shortest time there is, again and again, would keep it for ever.
                    return Ok(Swap::Absent);
                }
                self.replace(key, expected, value, remaining).await
            }
            Some(entry) if entry.value == value => Ok(Swap::Done),
            Some(entry) => Ok(Swap::Other(entry.value)),
        }
    }

    /// Counts one more attempt under `key`. The first one begins a window of this length, and no other changes its end.
    ///
    /// `attempt` is the attempt's own, made anew for each: sent twice, it is counted once, and answered with the number that
    /// it has. That holds as long as fewer than 32 others were counted in between; after that it is counted once more.
    /// Increment and expiry are one atomic step, so nothing can stand there for ever.
    ///
    /// By default this is [`get`](Self::get), and then [`claim`](Self::claim) or [`exchange`](Self::exchange), until one of
    /// these succeeds: two round trips, and more while other processes count under the same key. Those of one process take turns.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the attempt may have been counted; [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if
    /// something else than a count stands there, which is left alone.
    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        count_by_comparing(self, key, attempt, window).await
    }

    /// Adds `member`, of at most 64 bytes, to a set if it is not there, for `retention` at least; it is then `owner`'s.
    ///
    /// [`Claim::Claimed`] is also said of what is there and `owner`'s: it was added by a try whose reply was lost.
    /// [`Claim::Taken`] names the owner of the member that is there. By default each member is a record of its own, under a key
    /// that begins with `set`.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the member may have been added.
    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        self.claim(&member_key(set, member), owner, retention).await
    }

    /// Takes `member` out of a set if it is `owner`'s. `retention` is that of [`set_insert`](Self::set_insert).
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the member may have been taken out.
    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let _ = retention;
        self.remove(&member_key(set, member), owner).await
    }

    /// Marks `member` in a Bloom filter, and says whether it may have been marked before.
    ///
    /// By default nothing is marked, and everything was perhaps seen.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer; the member may be marked.
    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let _ = (filter, member);
        Ok(Hint::PerhapsSeen)
    }

    /// Says how full a Bloom filter is; `None`, which is the default, if the store has none.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer.
    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        let _ = filter;
        Ok(None)
    }

    /// What has to fail until an acknowledged record is forgotten.
    ///
    /// By default the least there is: [`Durability::Process`].
    fn durability(&self) -> Durability {
        Durability::Process
    }

    /// Says what only the store knows of how it is set up, for
    /// [`Idempotency::doctor`](crate::Idempotency::doctor): what is fine, and what is not. By default
    /// nothing.
    ///
    /// Under `key` nothing stands, and the store may put there what it tries out; it is the doctor
    /// who has tried the operations of this trait, each within `deadline`. The answer holds no secrets: it is printed.
    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        let _ = (key, deadline);
        Vec::new()
    }

    /// Tells the store how long a record may be for a handle that reads it.
    ///
    /// A longer one is of no use to that handle, whatever is in it. So the store may cut a longer record off after `bytes` and
    /// one more, rather than hold, and send, all of what somebody else put under the key. A store that
    /// several handles have goes by the largest number that it was told, and by none before the first. By default it does not listen.
    fn longest_record(&self, bytes: usize) {
        let _ = bytes;
    }
}

const SHORTEST_TTL: Duration = Duration::from_millis(1);

fn member_key(set: &str, member: &[u8]) -> String {
    use std::fmt::Write;

    let mut key = String::with_capacity(set.len() + 1 + 2 * member.len());
    key.push_str(set);
    key.push(':');
    for byte in member {
        // Writing to a string does not fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// [`Store::count`] for a store that has no better way: looks, and changes what it saw if that still stands.
///
/// Those of this process take turns, so it is other processes that they may race. One of those who race always succeeds; the others
/// pause, longer each time, or all of them would ask the store in step.
async fn count_by_comparing<S: Store + ?Sized>(
    store: &S,
    key: &str,
    attempt: u128,
    window: Duration,
) -> Result<Count, StoreError> {
    static QUEUES: LazyLock<Queues<()>> = LazyLock::new(Queues::default);

    // Not those of another store, which may be broken.
    let of_store = ptr::from_ref(store).cast::<()>().addr();
    let _turn = QUEUES.turn(format!("{of_store:x} {key}")).await;
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(entry) = store.get(key).await? else {
            let claim = store.claim(key, &count::first(attempt), window).await?;
            if claim == Claim::Claimed {
                return Ok(Count {
                    attempt: 1,
                    remaining: window,
                });
            }
            again(&mut pause).await;
            continue;
        };
        let Next { attempt, record } = count::next(&entry.value, attempt)?;
        let count = Count {
            attempt,
            remaining: entry.ttl.unwrap_or(window),
        };
        let Some(record) = record else {
            return Ok(count);
        };
        let swap = match entry.ttl {
            Some(_) => store.exchange(key, &entry.value, &record).await?,
            // Somebody took its expiry away. It is not to stand for ever.
            None => store.replace(key, &entry.value, &record, window).await?,
        };
        if swap == Swap::Done {
            return Ok(count);
        }
        again(&mut pause).await;
    }
}

async fn again(pause: &mut Duration) {
    if Handle::try_current().is_ok() {
        sleep(pause.mul_f64(world::jitter() - 1.0)).await;
        *pause = LONGEST_PAUSE.min(*pause * 2);
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
