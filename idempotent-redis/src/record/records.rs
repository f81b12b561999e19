//! The records of calls: one string per key.

use std::slice;
use std::time::Duration;

use ::redis::Value;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, StoreError, StoreErrorKind, Swap};

use crate::client::connection_like::StoreClient;
use crate::client::info::is_version_7;
use crate::record::oversize::Oversize;
use crate::record::removal::RemovalCommand;
use crate::record::replacement::{Replacement, by_script};
use crate::record::scripts::{CLAIM, CLAIM_REPLICATED, EXCHANGE, READ};
use crate::script::millis;
use crate::send::op::{Op, Order};
use crate::send::sender::Sender;

/// The commands for records on these servers. Clones share what the store learns about the servers.
#[derive(Clone)]
pub(crate) struct RecordCommands {
    native_claim: bool,
    replacement: Replacement,
    removal: RemovalCommand,
    oversize: Oversize,
}

impl RecordCommands {
    /// Uses the commands that all of these servers have according to `INFO`.
    pub(crate) fn of_servers(info: &[String]) -> Self {
        let removal = RemovalCommand::of_servers(info);
        Self {
            native_claim: !info.is_empty() && info.iter().all(|info| is_version_7(info)),
            // Servers that compare and delete also have `SET … IFEQ`.
            replacement: Replacement::new(removal.command().is_some()),
            removal,
            oversize: Oversize::default(),
        }
    }

    /// Whether a key is claimed by `SET … NX GET`.
    pub(crate) fn claims_natively(&self) -> bool {
        self.native_claim
    }

    pub(crate) fn removal(&self) -> &RemovalCommand {
        &self.removal
    }

    /// Allows records of `bytes` bytes; never lowers an earlier limit.
    pub(crate) fn allow(&self, bytes: usize) {
        self.oversize.allow(bytes);
    }

    /// The number of bytes of a record that are read, as an argument of the scripts.
    pub(crate) fn limit(&self) -> String {
        self.oversize.limit()
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn claim<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        key: &str,
        value: &[u8],
        ttl: Duration,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send {
        async move {
            let (keys, ttl) = (slice::from_ref(&key), millis(ttl));
            let is_native = self.native_claim && sender.replicas().is_none();
            let reply = if is_native && !self.oversize.may_exist() {
                let set =
                    Op::set_if_free(keys, slice::from_ref(&value), ttl).in_order(Order::OfKey);
                // A key whose record was large waits for its turn first.
                let timer = self.oversize.start_timer(!sender.is_large(key));
                let reply = sender.value(sender.send(&set).await);
                timer.answered();
                reply
            } else {
                let claim = async {
                    let (ttl, limit) = (ttl.to_string(), self.oversize.limit());
                    let args = [value, ttl.as_bytes(), limit.as_bytes()];
                    let claim = Op::script(&CLAIM, keys, &args).in_order(Order::OfKey);
                    sender.value(sender.send(&claim.replicated_by(&CLAIM_REPLICATED)).await)
                };
                // Boxed, because this is rare and the future of each claim would have room for it.
                Box::pin(claim).await
            };
            let reply = match reply {
                Err(error) if sender.replicas().is_some() => {
                    return Err(claim_again_if_full(error));
                }
                reply => reply?,
            };
            // The script returns a number if the key was free, and `SET … NX GET` returns nil.
            let stored = match reply {
                Value::Int(_) => None,
                reply => sender.read::<Option<Vec<u8>>>(reply)?,
            };
            Ok(match stored {
                Some(stored) if stored != value => Claim::Taken(self.oversize.cut(stored)),
                _ => Claim::Claimed,
            })
        }
    }

    /// `notifies`: publishes a notification on the channel with the name of the key.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn replace<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        notifies: bool,
        key: &str,
        expected: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send {
        async move {
            let (keys, mut digits) = ([key], itoa::Buffer::new());
            let args = [expected, value, digits.format(millis(ttl)).as_bytes()];
            let op = self.replacement.op(sender, notifies, &keys, &args);
            let reply = match self.replacement.reply(&op, sender.send(&op).await) {
                Some(reply) => reply,
                // Boxed, because this is rare and the future of each change would have room for it.
                None => Box::pin(by_script(sender, notifies, key, args)).await,
            };
            let reply = sender.value(reply)?;
            self.read_swap(sender, key, expected, Some(value), reply)
                .await
        }
    }

    /// `notifies`: publishes a notification on the channel with the name of the key.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn remove<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        notifies: bool,
        key: &str,
        expected: &Bytes,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send {
        async move {
            let removal = self.removal.send(sender, notifies, key, expected).await;
            let reply = removal.map_err(|error| sender.error(error))?;
            self.read_swap(sender, key, expected, None, reply).await
        }
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn exchange<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send {
        async move {
            let (keys, args) = ([key], [expected, value]);
            let exchange = Op::script(&EXCHANGE, &keys, &args).in_order(Order::OfKey);
            let reply = sender.value(sender.send(&exchange.replicated_by(&EXCHANGE)).await)?;
            self.read_swap(sender, key, expected, Some(value), reply)
                .await
        }
    }

    /// Reads the reply to a change: a number above zero if it is done, nil if nothing was stored, else the stored value. `0` means
    /// that another value is stored, and it must be read. `value` is the new value; `None` after a removal.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    fn read_swap<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        key: &str,
        expected: &[u8],
        value: Option<&[u8]>,
        reply: Value,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send {
        async move {
            Ok(match reply {
                Value::Int(1..) => Swap::Done,
                Value::Nil => Swap::Absent,
                // Boxed, because this is rare and the future of each change would have room for it.
                Value::Int(_) => match Box::pin(self.get(sender, key)).await? {
                    Some(entry) if value == Some(&*entry.value) => Swap::Done,
                    // A late claim has stored the expected value just now. When the script ran, it was not stored.
                    Some(entry) if entry.value != expected => Swap::Other(entry.value),
                    _ => Swap::Absent,
                },
                other => Swap::Other(sender.read::<Vec<u8>>(other)?.into()),
            })
        }
    }

    pub(crate) async fn get<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        let (keys, limit) = ([key], self.oversize.limit());
        let args = [limit.as_bytes()];
        let reply = sender.value(sender.send(&Op::script(&READ, &keys, &args)).await)?;
        let (value, remaining): (Option<Vec<u8>>, i64) = sender.read(reply)?;
        Ok(value.map(|value| Entry {
            value: value.into(),
            ttl: u64::try_from(remaining).ok().map(Duration::from_millis),
        }))
    }
}

/// Makes the caller of a full server claim again.
///
/// After `Full` a caller reads the key, and its own record under the key counts as a claim, without a wait for replicas. After
/// `NotApplied` the caller claims again: then the script finds the caller's record and waits for the replicas. (A full server
/// refuses `SET NX GET` even if the stored record is the same.)
fn claim_again_if_full(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Full => error.with_kind(StoreErrorKind::NotApplied),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::client::connection::RedisConnection;
    use crate::client::replicas::Replicas;
    use crate::send::direct::Direct;
    use crate::send::large::Large;
    use crate::send::large::tests::Silent;
    use crate::send::sender::BatchScope;

    type On = (&'static RecordCommands, &'static Sender<RedisConnection>);

    fn size_of_future<F: Future>(_: impl FnOnce(On) -> F) -> usize {
        size_of::<F>()
    }

    /// Each operation allocates its future.
    #[test]
    fn the_futures_of_operations_are_short() {
        static EMPTY: Bytes = Bytes::new();
        let ttl = Duration::ZERO;
        let claim = size_of_future(|(records, sender)| records.claim(sender, "", b"", ttl));
        let remove = size_of_future(|(records, sender)| records.remove(sender, false, "", &EMPTY));
        let replace =
            size_of_future(|(records, sender)| records.replace(sender, false, "", b"", b"", ttl));
        let sizes = [claim, remove, replace];
        let most = [448, 496, 544];
        let is_short = sizes.iter().zip(most).all(|(size, most)| *size <= most);
        assert!(is_short, "{sizes:?} of {most:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_waited_behind_large_records_does_not_count_as_oversize() {
        let records = RecordCommands::of_servers(&["redis_version:8.0.0".to_owned()]);
        let large = Large::new(Silent);
        large.note("large", false, &Ok(Value::BulkString(vec![7; 32 * 1024])));
        let operations = BatchScope::Off(Direct::new(Silent));
        let sender = Sender::over(Silent, Replicas::default(), operations, Some(large), None);
        let (second, ttl) = (Duration::from_secs(1), Duration::from_mins(1));
        for (key, counts) in [("large", false), ("other", true)] {
            let claim = records.claim(&sender, key, b"own", ttl);
            assert!(timeout(second, claim).await.is_err());
            assert_eq!(records.oversize.may_exist(), counts, "{key}");
        }
    }
}
