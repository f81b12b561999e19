//! The records of calls: one string per key.

use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, RedisResult, Value};
use bytes::Bytes;

use crate::batch::Route;
use crate::redis::client::info::is_version_7;
use crate::redis::record::oversize::Oversize;
use crate::redis::record::removal::{Removal, Target};
use crate::redis::record::scripts::{
    CLAIM, CLAIM_REPLICATED, EXCHANGE, READ, REPLACE, REPLACE_AND_NOTIFY,
    REPLACE_AND_NOTIFY_REPLICATED, REPLACE_REPLICATED,
};
use crate::redis::script::{MOST_DIGITS, millis, send};
use crate::redis::send::batching::Request;
use crate::redis::send::executor::Executor;
use crate::redis::send::gathering::Order;
use crate::store::{Claim, Entry, StoreError, StoreErrorKind, Swap};

/// The commands for records on these servers. Clones share what the store learns about the servers.
#[derive(Clone)]
pub(crate) struct Records {
    native_claim: bool,
    removal: Removal,
    oversize: Oversize,
}

impl Records {
    /// Uses the commands that all of these servers have according to `INFO`.
    pub(crate) fn of_servers(info: &[String]) -> Self {
        Self {
            native_claim: !info.is_empty() && info.iter().all(|info| is_version_7(info)),
            removal: Removal::of_servers(info),
            oversize: Oversize::default(),
        }
    }

    /// Whether a key is claimed by `SET … NX GET`.
    pub(crate) fn claims_natively(&self) -> bool {
        self.native_claim
    }

    pub(crate) fn removal(&self) -> &Removal {
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

    pub(crate) async fn claim<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        value: &[u8],
        ttl: Duration,
    ) -> Result<Claim, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let ttl = millis(ttl);
        let is_native = self.native_claim && executor.replicas().is_none();
        if !is_native || executor.needs_turn(key) {
            // Boxed, because this is rare and the future of each claim would have room for it.
            return Box::pin(self.claim_otherwise(executor, key, value, ttl)).await;
        }
        let batching = executor.batching(key);
        let reply = match batching.route() {
            Route::Queued(sender) => {
                let digest = batching.digest(key);
                let claim = self.claim_request(key, value, ttl, digest);
                let waiting = self.oversize.start_timer();
                let reply = executor.submit(sender, claim).await;
                waiting.answered();
                let reply = reply?;
                if executor.must_repeat(&reply) {
                    return Box::pin(self.claim_otherwise(executor, key, value, ttl)).await;
                }
                reply
            }
            Route::Inline(_inline) if self.oversize.may_exist() => {
                return Box::pin(self.claim_otherwise(executor, key, value, ttl)).await;
            }
            Route::Inline(_inline) => {
                let mut connection = executor.connection();
                self.set_if_free(&mut connection, key, value, ttl).await
            }
        };
        self.read_claim(executor, key, value, reply)
    }

    /// A claim that is sent together with other operations.
    fn claim_request(&self, key: &str, value: &[u8], ttl: u64, digest: u64) -> Request {
        if self.oversize.may_exist() {
            let limits = self.claim_limits(ttl);
            let args = claim_args(value, &limits);
            return Request::script(&CLAIM, &[key], &args, Some(digest));
        }
        let size = key.len() + value.len();
        Request::command(set_if_free(key, value, ttl), size, Some(digest))
    }

    /// Sends `SET … NX GET`, and measures how long the reply takes.
    async fn set_if_free<C: ConnectionLike>(
        &self,
        connection: &mut C,
        key: &str,
        value: &[u8],
        ttl: u64,
    ) -> RedisResult<Value> {
        let set = set_if_free(key, value, ttl);
        let waiting = self.oversize.start_timer();
        let reply = send(connection, &set).await;
        waiting.answered();
        reply
    }

    /// Claims by a script, or after a wait for a turn because the record was large.
    async fn claim_otherwise<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        value: &[u8],
        ttl: u64,
    ) -> Result<Claim, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        if !self.native_claim || executor.replicas().is_some() {
            return self.claim_by_script(executor, key, value, ttl).await;
        }
        let (mut connection, _turn) = executor.connection_for(key).await;
        let reply = if self.oversize.may_exist() {
            let limits = self.claim_limits(ttl);
            let args = claim_args(value, &limits);
            CLAIM.run(&mut connection, &[key], &args).await
        } else {
            self.set_if_free(&mut connection, key, value, ttl).await
        };
        self.read_claim(executor, key, value, reply)
    }

    /// Reads the reply to a claim: the stored value; nil from `SET … NX GET`, or a number from the script, if the key was free.
    fn read_claim<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        value: &[u8],
        reply: RedisResult<Value>,
    ) -> Result<Claim, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let stored = match reply {
            Ok(Value::Int(_)) => None,
            Ok(reply) => executor.read::<Option<Vec<u8>>>(reply)?,
            Err(error) => return Err(executor.error(error)),
        };
        executor.note_size(key, stored.as_ref().map_or(0, Vec::len));
        Ok(match stored {
            Some(stored) if stored != value => Claim::Taken(self.oversize.cut(stored)),
            _ => Claim::Claimed,
        })
    }

    async fn claim_by_script<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        value: &[u8],
        ttl: u64,
    ) -> Result<Claim, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (keys, limits) = ([key], self.claim_limits(ttl));
        let args = claim_args(value, &limits);
        let claim = executor.write_in(Order::OfKey, &CLAIM, &CLAIM_REPLICATED, &keys, &args);
        let reply = claim.await.map_err(|error| {
            if executor.replicas().is_some() {
                claim_again_if_full(error)
            } else {
                error
            }
        })?;
        executor.read_claim(reply)
    }

    /// The arguments of [`CLAIM`] after the value: the time to live, and the most bytes of a value that it returns.
    fn claim_limits(&self, ttl: u64) -> [String; 2] {
        [ttl.to_string(), self.oversize.limit()]
    }

    /// `notifies`: publishes a notification on the channel with the name of the key.
    pub(crate) async fn replace<C>(
        &self,
        executor: &Executor<C>,
        notifies: bool,
        key: &str,
        expected: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let mut digits = itoa::Buffer::new();
        let args = [expected, value, digits.format(millis(ttl)).as_bytes()];
        let order = if expected == value {
            Order::Renewal
        } else {
            Order::OfKey
        };
        let (script, replicated) = if notifies {
            (&REPLACE_AND_NOTIFY, &REPLACE_AND_NOTIFY_REPLICATED)
        } else {
            (&REPLACE, &REPLACE_REPLICATED)
        };
        let keys = [key];
        let replace = executor.write_in(order, script, replicated, &keys, &args);
        let reply = replace.await?;
        self.read_swap(executor, key, [expected, value], reply)
            .await
    }

    /// Reads the reply to a replacement. `0` means that another value is stored and is long, and it must be read.
    async fn read_swap<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        [expected, value]: [&[u8]; 2],
        reply: Value,
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        if reply != Value::Int(0) {
            return executor.read_swap(reply);
        }
        // Boxed, because this is rare and the future of each replacement would have room for it.
        let entry = Box::pin(self.get(executor, key)).await?;
        Ok(match entry {
            Some(entry) if entry.value == value => Swap::Done,
            // A late claim has stored the value just now. When the script ran, the value was not stored.
            Some(entry) if entry.value != expected => Swap::Other(entry.value),
            _ => Swap::Absent,
        })
    }

    /// `notifies`: publishes a notification on the channel with the name of the key.
    pub(crate) async fn remove<C>(
        &self,
        executor: &Executor<C>,
        notifies: bool,
        key: &str,
        expected: &Bytes,
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (removal, oversize) = (&self.removal, &self.oversize);
        let target = Target {
            key,
            expected,
            notifies,
        };
        let reply = if executor.needs_turn(key) {
            let remove_in_turn = async {
                let (mut connection, _turn) = executor.connection_for(key).await;
                let removing = removal.run(&mut connection, target, oversize);
                removing.await
            };
            Box::pin(remove_in_turn).await
        } else {
            let batching = executor.batching(key);
            let mut connection = executor.connection();
            match batching.route() {
                Route::Queued(sender) => {
                    let digest = batching.digest(key);
                    let (request, native) = removal.request(target, digest);
                    let reply = executor.submit(sender, request).await?;
                    if executor.must_repeat(&reply) {
                        Box::pin(removal.run(&mut connection, target, oversize)).await
                    } else {
                        let sent = (native, reply);
                        let resolving = removal.resolve(&mut connection, target, sent, oversize);
                        resolving.await
                    }
                }
                Route::Inline(_inline) => {
                    let removing = removal.run(&mut connection, target, oversize);
                    removing.await
                }
            }
        };
        executor.read_swap(reply.map_err(|error| executor.error(error))?)
    }

    pub(crate) async fn get<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let most = self.oversize.limit();
        let reply = executor.run(&READ, &[key], &[most.as_bytes()]).await?;
        let (value, remaining): (Option<Vec<u8>>, i64) = executor.read(reply)?;
        Ok(value.map(|value| Entry {
            value: value.into(),
            ttl: u64::try_from(remaining).ok().map(Duration::from_millis),
        }))
    }

    pub(crate) async fn exchange<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (keys, args) = ([key], [expected, value]);
        let exchange = executor.write_in(Order::OfKey, &EXCHANGE, &EXCHANGE, &keys, &args);
        let reply = exchange.await?;
        self.read_swap(executor, key, args, reply).await
    }
}

/// The arguments of [`CLAIM`] and [`CLAIM_REPLICATED`].
fn claim_args<'a>(value: &'a [u8], [ttl, most]: &'a [String; 2]) -> [&'a [u8]; 3] {
    [value, ttl.as_bytes(), most.as_bytes()]
}

/// `SET … NX GET`.
fn set_if_free(key: &str, value: &[u8], ttl: u64) -> Cmd {
    let words = "SETNXGETPX".len();
    let mut set = Cmd::with_capacity(7, words + key.len() + value.len() + MOST_DIGITS);
    set.arg("SET").arg(key).arg(value);
    set.arg("NX").arg("GET").arg("PX").arg(ttl);
    set
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
