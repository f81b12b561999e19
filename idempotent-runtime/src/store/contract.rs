//! The operations of a store, and their defaults.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{Claim, ClaimAll, ClaimAny, Count, Entry, FencedClaim, Hint, Swap};
use super::durability::Durability;
use super::fencing;
use super::filter::{BloomFilter, BloomStats};
use super::finding::Finding;
use super::key::member_key;
use super::listing::{Cursor, Page};
use super::local::LocalStore;
use super::queue::{Pause, Queues};
use crate::error::store::StoreError;
use crate::policy::times::SHORTEST_TTL;
use crate::record::count;

/// Stores records under keys and changes them by compare-and-set only. The page of [`store`](crate::store) has a complete store.
///
/// Every operation may be sent twice, because a reply may be lost. The second send changes nothing more, and its answer never
/// treats the caller's own record as the record of another caller. Three operations may answer a second send differently:
///
/// * [`remove`](Self::remove) and [`set_remove`](Self::set_remove) answer [`Swap::Absent`], or [`Swap::Other`] if another
///   caller has stored a record in the meantime.
/// * [`bloom_insert`](Self::bloom_insert) answers [`Hint::PerhapsSeen`].
/// * [`count`](Self::count) counts the attempt again if 32 other attempts were counted in between.
///
/// Keys are at most 512 bytes of UTF-8 without NUL. Times to live are at least one millisecond. A store with coarser units rounds
/// up, by its [`expiry_slack`](Self::expiry_slack). An expired record is absent: the store never returns it and never compares with it.
///
/// # More operations
///
/// Every other operation has a default: it uses the four required operations and takes more steps, or answers that the store does
/// not support it. Hints wake waiting calls, which otherwise poll: [`subscribe`](Self::subscribe),
/// [`replace_and_notify`](Self::replace_and_notify) and [`remove_and_notify`](Self::remove_and_notify).
/// A store around another store implements [`Wrap`](super::Wrap), which forwards every operation, also those with a default.
///
/// # Cancellation
///
/// After a dropped future the operation is either applied or not, never half.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "not a store",
    note = "implement `Store` for a new store, or `Wrap` for a store around another store"
)]
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Stores `value` under `key` for `ttl` if nothing is stored there.
    ///
    /// If the stored value equals `value`, it is the caller's own: the reply to an earlier attempt was lost. The answer is
    /// [`Claim::Claimed`], and the time to live does not change.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been stored.
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError>;

    /// Does what [`claim`](Self::claim) does, and gives the claim a [`Fence`](super::Fence), whose number is larger than the number
    /// of every earlier claim of `key`: also of claims that expired or were removed. A claim that is sent again keeps its fence.
    ///
    /// The number is `max(last + 1, microseconds of the store's clock)`. The last number is in a record under `fence_key`, which
    /// lives for the longer of `ttl` and 24 hours, and whose text has `key` in braces: a cluster keeps both on one node. A claim that
    /// finds this record without an end [has taken over](super::Fence::took_over). The end of a call replaces the record.
    ///
    /// By default this is [`claim_fenced_in_steps`]: two more round trips, three if there is a last number. A store that writes two keys
    /// in one step asks [`draw_fence`](super::draw_fence).
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). `Misconfigured` if the record under `fence_key` is not a fence; the record does not change.
    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        claim_fenced_in_steps(self, key, fence_key, value, ttl).await
    }

    /// Claims all keys or none, in one atomic step: each as [`claim`](Self::claim) does, with its errors. The keys are different, and
    /// sorted by their bytes, so that stores which lock them in this order cannot deadlock. By default, and for keys that it cannot
    /// claim in one step, a store stores nothing and answers [`ClaimAll::NotTogether`].
    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        let _ = (claims, ttl);
        Ok(ClaimAll::NotTogether)
    }

    /// Claims the first free key, in one atomic step: as [`claim`](Self::claim) does, with its errors. If one of the values is stored
    /// under its key, it is the caller's own, and nothing else is stored. The keys are different. By default, and for keys that it cannot
    /// look at in one step, a store stores nothing and answers [`ClaimAny::NotTogether`].
    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        let _ = (claims, ttl);
        Ok(ClaimAny::NotTogether)
    }

    /// Stores `value` under `key` for `ttl` if `expected` is stored there, byte for byte.
    ///
    /// If `expected` equals `value`, this sets only the time to live, and a full store must accept it. Otherwise, if `value` is
    /// already stored, nothing changes and the answer is [`Swap::Done`].
    ///
    /// A request may arrive after one that was sent later. So a store that sends the instant of the expiry, and not a duration, compares
    /// more than the value: a late renewal must not shorten what a later one has given.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been stored.
    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError>;

    /// Removes the value under `key` if it is `expected`, byte for byte.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been removed.
    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError>;

    /// Reads the value under `key` and its remaining time to live.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// Does what [`replace`](Self::replace) does, and notifies the receivers of [`subscribe`](Self::subscribe) in the same round trip.
    /// A notification is a hint and may be lost. By default this is [`replace`](Self::replace), without a notification. Its errors are
    /// those of [`replace`](Self::replace).
    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace(key, expected, value, ttl).await
    }

    /// Does what [`remove`](Self::remove) does, and notifies the receivers of [`subscribe`](Self::subscribe) in the same round trip.
    /// A notification is a hint and may be lost. By default this is [`remove`](Self::remove), without a notification, with its errors.
    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove(key, expected).await
    }

    /// Subscribes to changes of the record under `key`. `None`, the default: the store has no notifications, or has none now.
    ///
    /// When this returns, the subscription is active: the receiver gets every later notification.
    /// [`changed`](watch::Receiver::changed) of the receiver returns with each notification. It returns an error if no more
    /// notifications will come, for example after a lost connection. From then on the caller must poll. No rule depends on a
    /// notification: it may be lost, late or spurious, and an expired record sends none. Drop the receiver to end it.
    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        let _ = key;
        None
    }

    /// Replaces `expected` by `value`, byte for byte. The instant at which the record expires does not change.
    ///
    /// It answers as [`replace`](Self::replace) does. A store may answer [`Swap::Other`] for a record without an expiry, because
    /// another program wrote it. The default does so. It reads the record by [`get`](Self::get) and replaces it by `replace` with the
    /// remaining time, so the expiry may move by as much as the two round trips differ.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been stored.
    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let sent = Instant::now();
        match self.get(key).await? {
            None => Ok(Swap::Absent),
            Some(entry) if entry.value == expected && entry.ttl.is_some() => {
                // Without the subtraction each exchange would prolong the record by the time of its round trip.
                let remaining = entry.ttl.unwrap_or_default().saturating_sub(sent.elapsed());
                if remaining < SHORTEST_TTL {
                    // Repeated exchanges with the shortest time to live would prevent the record from expiring.
                    return Ok(Swap::Absent);
                }
                self.replace(key, expected, value, remaining).await
            }
            Some(entry) if entry.value == value => Ok(Swap::Done),
            Some(entry) => Ok(Swap::Other(entry.value)),
        }
    }

    /// Counts an attempt under `key`. The first attempt begins a window of this length; later attempts do not change its end.
    ///
    /// `attempt` identifies the attempt. An attempt that is sent twice is counted once and answered with its first number,
    /// unless 32 other attempts were counted in between. Increment and expiry are one atomic step, so every count expires.
    /// By default this is [`get`](Self::get), then [`claim`](Self::claim) or [`exchange`](Self::exchange), until one of these
    /// succeeds: two round trips, and more while other processes count under the same key. Attempts of one process take turns.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the attempt may have been counted.
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the record is not a count; the record does not change.
    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        count_by_comparing(self, key, attempt, window).await
    }

    /// Adds `member`, of at most 64 bytes, with its `owner` to a set, unless the set has it. The member stays for at least `retention`.
    ///
    /// If `owner` already has the member, the answer is [`Claim::Claimed`]: the reply to an earlier attempt was lost.
    /// [`Claim::Taken`] has the owner of the member. By default each member is a separate record, under a key that begins with `set`.
    /// Its errors are those of [`claim`](Self::claim).
    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        self.claim(&member_key(set, member), owner, retention).await
    }

    /// Removes `member` from a set if it belongs to `owner`. `retention` must be the same as in [`set_insert`](Self::set_insert).
    /// Its errors are those of [`remove`](Self::remove).
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

    /// Inserts `member` into a Bloom filter, and answers whether it may have been inserted before. By default this inserts nothing and
    /// answers [`Hint::PerhapsSeen`]. An error: there is no answer, and the member may be inserted.
    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let _ = (filter, member);
        Ok(Hint::PerhapsSeen)
    }

    /// Returns how full a Bloom filter is; `None`, the default, if the store has no Bloom filters. An error: there is no answer.
    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        let _ = filter;
        Ok(None)
    }

    /// Lists about `most` records whose keys begin with `prefix`: the first [`Page`], or the page `after` a [`Page::next`].
    /// For tools of operators: no call lists. By default `None`: the store cannot list.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer, or if `after` is no cursor of this store.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        let _ = (prefix, after, most);
        Ok(None)
    }

    /// The same store, if it is in the memory of this process and answers without waiting: calls use its operations without futures.
    /// By default `None`. A store around another store must return `None`, or calls would bypass it.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }

    /// Whether this store notes a claim that is dropped before it is sent, so that the claim is not withdrawn. By default `false`.
    #[doc(hidden)]
    fn notes_unsent(&self) -> bool {
        false
    }

    /// What must fail before an acknowledged record is lost. By default the weakest: [`Durability::Process`].
    fn durability(&self) -> Durability {
        Durability::Process
    }

    /// How much longer than `ttl` the record of a running call may live; the conformance suite waits as long. By default zero.
    fn expiry_slack(&self, _ttl: Duration) -> Duration {
        Duration::ZERO
    }

    /// Examines the setup of the store for [`Idempotency::doctor`](crate::Idempotency::doctor). By default there are no findings.
    ///
    /// Nothing is stored under `key`, and the store may use that key for tests. The doctor itself tests the operations of this
    /// trait. Each question to a server should take at most `deadline`. Findings are printed, so they must not contain secrets.
    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        let _ = (key, deadline);
        Vec::new()
    }

    /// Sets the length of the longest record that a handle reads: the store may cut a longer record, for example of another program,
    /// after `bytes + 1` bytes. Of several handles the largest number counts. Before the first call there is no limit.
    fn longest_record(&self, bytes: usize) {
        let _ = bytes;
    }
}

/// The default of [`Store::claim_fenced`], also for a [`Wrap`](super::Wrap) that changes keys or values: the four required operations.
///
/// The number is drawn after the claim, by the clock of this process. Costs three round trips, four if there is a last number.
///
/// # Errors
///
/// As [`Store::claim_fenced`].
pub async fn claim_fenced_in_steps<S: Store + ?Sized>(
    store: &S,
    key: &str,
    fence_key: &str,
    value: &Bytes,
    ttl: Duration,
) -> Result<FencedClaim, StoreError> {
    if let Claim::Taken(other) = store.claim(key, value, ttl).await? {
        return Ok(FencedClaim::Taken(other));
    }
    let mut stored = None;
    let draw = async {
        loop {
            let drawn = fencing::draw_fence(stored.as_ref(), value, ttl)?;
            let Some(record) = &drawn.record else {
                return Ok(drawn.fence);
            };
            let swap = match &stored {
                None => fencing::swap(store.claim(fence_key, record, drawn.ttl).await?),
                Some(stored) => store.replace(fence_key, stored, record, drawn.ttl).await?,
            };
            stored = match swap {
                Swap::Done => return Ok(drawn.fence),
                Swap::Absent => None,
                Swap::Other(other) => Some(other),
            };
        }
    };
    match draw.await {
        Ok(fence) => fencing::confirm(value, fence, store.get(key).await),
        Err(error) if fencing::is_permanent(&error) && store.remove(key, value).await.is_ok() => {
            Err(error)
        }
        Err(error) => Err(fencing::unknown(error)),
    }
}

/// The default of [`Store::count`]: reads the count and replaces it if it has not changed. One racer always succeeds.
async fn count_by_comparing<S: Store + ?Sized>(
    store: &S,
    key: &str,
    attempt_id: u128,
    window: Duration,
) -> Result<Count, StoreError> {
    static QUEUES: LazyLock<Queues<()>> = LazyLock::new(Queues::default);
    // Per store: a store that hangs must not block another store.
    let store_id = ptr::from_ref(store).cast::<()>().addr();
    let _turn = QUEUES.wait_turn(format!("{store_id:x} {key}")).await;
    let mut pause = Pause::first();
    loop {
        let Some(entry) = store.get(key).await? else {
            let claim = store.claim(key, &count::first(attempt_id), window).await?;
            if claim == Claim::Claimed {
                let (attempt, remaining) = (1, window);
                return Ok(Count { attempt, remaining });
            }
            pause.sleep().await;
            continue;
        };
        let next = count::next(&entry.value, attempt_id)?;
        let (attempt, remaining) = (next.attempt, entry.ttl.unwrap_or(window));
        let count = Count { attempt, remaining };
        let Some(record) = next.record else {
            return Ok(count);
        };
        let swap = match entry.ttl {
            Some(_) => store.exchange(key, &entry.value, &record).await?,
            // Another program removed the expiry. The count must expire.
            None => store.replace(key, &entry.value, &record, window).await?,
        };
        if swap == Swap::Done {
            return Ok(count);
        }
        pause.sleep().await;
    }
}
