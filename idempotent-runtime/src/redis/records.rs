//! The records of calls: one string per key.

use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue as _, RedisError, RedisResult, Value, cmd};

use super::executor::Executor;
use super::info::is_version_7;
use super::oversize::Oversize;
use super::record_scripts::{CLAIM, CLAIM_REPLICATED, EXCHANGE, READ, REPLACE, REPLACE_REPLICATED};
use super::removal::Removal;
use super::script::millis;
use crate::store::{Claim, Entry, StoreError, StoreErrorKind, Swap};

/// The commands for records on these servers. A clone shares what is found out.
#[derive(Clone)]
pub(super) struct Records {
    native_claim: bool,
    removal: Removal,
    oversize: Oversize,
}

impl Records {
    /// Uses the commands that all of these servers have according to `INFO`.
    pub(super) fn of_servers(info: &[String]) -> Self {
        Self {
            native_claim: !info.is_empty() && info.iter().all(|info| is_version_7(info)),
            removal: Removal::of_servers(info),
            oversize: Oversize::default(),
        }
    }

    /// Whether a key is claimed by `SET … NX GET`.
    pub(super) fn claims_natively(&self) -> bool {
        self.native_claim
    }

    pub(super) fn removal(&self) -> &Removal {
        &self.removal
    }

    /// Allows records of `bytes` bytes; never lowers an earlier limit.
    pub(super) fn allow(&self, bytes: usize) {
        self.oversize.allow(bytes);
    }

    pub(super) async fn claim<C>(
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
        if !self.native_claim || executor.replicas().is_some() {
            return self.claim_by_script(executor, key, value, ttl).await;
        }
        let (mut connection, _turn) = executor.connection_for(key).await;
        let stored = if self.oversize.is_met() {
            self.claim_and_cut(&mut connection, key, value, ttl).await
        } else {
            self.claim_natively(&mut connection, key, value, ttl).await
        };
        let stored = stored.map_err(|error| executor.error(error))?;
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
        let (ttl, most) = (ttl.to_string(), self.oversize.most());
        let args = [value, ttl.as_bytes(), most.as_bytes()];
        let keys = [key];
        let claim = executor.write(&CLAIM, &CLAIM_REPLICATED, &keys, &args);
        let reply = claim.await.map_err(|error| {
            if executor.replicas().is_some() {
                claim_again_if_full(error)
            } else {
                error
            }
        })?;
        executor.read_claim(reply)
    }

    /// Claims by a script. Returns the stored value, cut to the longest record; nothing if the key is claimed.
    async fn claim_and_cut<C: ConnectionLike>(
        &self,
        connection: &mut C,
        key: &str,
        value: &[u8],
        ttl: u64,
    ) -> RedisResult<Option<Vec<u8>>> {
        let (ttl, most) = (ttl.to_string(), self.oversize.most());
        let args = [value, ttl.as_bytes(), most.as_bytes()];
        match CLAIM.run(connection, &[key], &args).await? {
            Value::Int(_) => Ok(None),
            taken => Vec::from_redis_value(taken)
                .map(Some)
                .map_err(RedisError::from),
        }
    }

    /// Claims by `SET … NX GET`. Returns the stored value; nothing if the key was free.
    async fn claim_natively<C: ConnectionLike>(
        &self,
        connection: &mut C,
        key: &str,
        value: &[u8],
        ttl: u64,
    ) -> RedisResult<Option<Vec<u8>>> {
        let mut set = cmd("SET");
        set.arg(key).arg(value);
        set.arg("NX").arg("GET").arg("PX").arg(ttl);
        let waiting = self.oversize.start_wait();
        let stored = set.query_async(connection).await;
        waiting.answered();
        stored
    }

    /// Publishes a notification on `channel`.
    pub(super) async fn replace<C>(
        &self,
        executor: &Executor<C>,
        channel: &str,
        key: &str,
        expected: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (ttl, most) = (millis(ttl).to_string(), self.oversize.most());
        let args = [
            expected,
            value,
            ttl.as_bytes(),
            channel.as_bytes(),
            most.as_bytes(),
        ];
        let keys = [key];
        let replace = executor.write(&REPLACE, &REPLACE_REPLICATED, &keys, &args);
        executor.read_swap(replace.await?)
    }

    /// Publishes a notification on `channel`.
    pub(super) async fn remove<C>(
        &self,
        executor: &Executor<C>,
        channel: &str,
        key: &str,
        expected: &[u8],
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (mut connection, _turn) = executor.connection_for(key).await;
        let most = self.oversize.most();
        let removal = &self.removal;
        let reply = removal.run(&mut connection, key, expected, channel, &most);
        executor.read_swap(reply.await.map_err(|error| executor.error(error))?)
    }

    pub(super) async fn get<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let most = self.oversize.most();
        let reply = executor.run(&READ, &[key], &[most.as_bytes()]).await?;
        let (value, left): (Option<Vec<u8>>, i64) = executor.read(reply)?;
        Ok(value.map(|value| Entry {
            value: value.into(),
            ttl: u64::try_from(left).ok().map(Duration::from_millis),
        }))
    }

    pub(super) async fn exchange<C>(
        &self,
        executor: &Executor<C>,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> Result<Swap, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let most = self.oversize.most();
        let args = [expected, value, most.as_bytes()];
        let reply = executor.write(&EXCHANGE, &EXCHANGE, &[key], &args).await?;
        executor.read_swap(reply)
    }
}

/// Makes the caller of a full server claim again.
///
/// After `Full` a caller reads the key and takes its own record as claimed, without waiting for replicas. After
/// `NotApplied` it claims again: then the script finds its own record and waits for the replicas. (A full server refuses
/// `SET NX GET` even if the stored record is the same.)
fn claim_again_if_full(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Full => {
            let (reason, place) = (error.why().to_owned(), error.location().map(str::to_owned));
            let error = StoreError::new(StoreErrorKind::NotApplied, error).reason(reason);
            match place {
                Some(place) => error.place(place),
                None => error,
            }
        }
        _ => error,
    }
}
