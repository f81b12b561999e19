//! The [`Store`] of the engine in one process, which sends messages to the simulated store.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::Mutant;
use super::batching::Engines;
use super::net::{FENCES, KEYS, Net, STEPS};
use super::op::{Answer, Op};
use super::source;
use super::tokens::{self, TOKENS};
use crate::key::fingerprint::Fingerprint;
use crate::store::{
    Claim, ClaimAll, ClaimAny, Entry, FencedClaim, Store, StoreError, StoreErrorKind, Swap,
};

#[derive(Clone)]
pub(super) struct Link {
    pub(super) net: Arc<Net>,
    pub(super) process: usize,
    /// If the operations go in batches.
    pub(super) engines: Option<Arc<Engines>>,
}

impl Link {
    pub(super) fn new(net: &Arc<Net>, process: usize) -> Self {
        let engines = net
            .plan
            .batches
            .map(|plan| Engines::new(net, process, plan));
        Self {
            net: Arc::clone(net),
            process,
            engines: engines.map(Arc::new),
        }
    }

    async fn send(&self, key: &str, op: Op, notifies: bool) -> Result<Answer, StoreError> {
        let key = number_of(key).expect("the simulation made this key");
        if let Some(engines) = &self.engines {
            let reply = engines.send(key, op, notifies).await;
            return reply.map_err(|kind| StoreError::new(kind, "simulated"));
        }
        let reply = self.net.send(self.process, key, op, notifies);
        match reply.await {
            Ok(reply) => reply.map_err(|kind| StoreError::new(kind, "simulated")),
            // The message was lost, so no answer ever comes.
            Err(_) => pending().await,
        }
    }

    fn has_steps(&self) -> bool {
        self.net.plan.calls.iter().any(|call| call.has_steps)
    }

    pub(super) async fn swap(&self, key: &str, op: Op, notifies: bool) -> Result<Swap, StoreError> {
        match self.send(key, op, notifies).await? {
            Answer::Swap(swap) => Ok(swap),
            _ => Err(other_operation()),
        }
    }
}

#[async_trait]
impl Store for Link {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let value = value.clone();
        match self.send(key, Op::Claim { value, ttl }, false).await? {
            Answer::Claim(claim) => Ok(claim),
            _ => Err(other_operation()),
        }
    }

    /// Half of the time the store does not claim the keys together.
    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        if self.net.inside().dice.chance(500) {
            return Ok(ClaimAll::NotTogether);
        }
        let (first, claims) = (claims[0].0, numbered(claims));
        match self
            .send(first, Op::ClaimAll { claims, ttl }, false)
            .await?
        {
            Answer::All(claim) => Ok(claim),
            _ => Err(other_operation()),
        }
    }

    /// Half of the time the store does not look at the keys together.
    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        if self.net.inside().dice.chance(500) {
            return Ok(ClaimAny::NotTogether);
        }
        let (first, claims) = (claims[0].0, numbered(claims));
        match self
            .send(first, Op::ClaimAny { claims, ttl }, false)
            .await?
        {
            Answer::Any(claim) => Ok(claim),
            _ => Err(other_operation()),
        }
    }

    async fn claim_fenced(
        &self,
        key: &str,
        _fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        let value = value.clone();
        if source::runs_mutant(Mutant::FenceBeforeClaim) {
            let draw = Op::Draw {
                value: value.clone(),
            };
            let Answer::Fenced(FencedClaim::Claimed(fence)) = self.send(key, draw, false).await?
            else {
                return Err(other_operation());
            };
            return Ok(match self.claim(key, &value, ttl).await? {
                Claim::Claimed => FencedClaim::Claimed(fence),
                Claim::Taken(other) => FencedClaim::Taken(other),
            });
        }
        match self
            .send(key, Op::ClaimFenced { value, ttl }, false)
            .await?
        {
            Answer::Fenced(claim) => Ok(claim),
            _ => Err(other_operation()),
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replacement = replacement(expected, value, ttl);
        self.swap(key, replacement, false).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        // `forget` removes the steps of every call.
        if !self.has_steps() && is_of_steps(key) {
            return Ok(Swap::Absent);
        }
        let expected = expected.clone();
        self.swap(key, Op::Remove { expected }, false).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let (expected, value) = (expected.clone(), value.clone());
        self.swap(key, Op::Exchange { expected, value }, false)
            .await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        // `peek` asks for the fence and the steps of every call.
        let has_fences = self.net.plan.keys.iter().any(|key| key.fence);
        if key.starts_with(FENCE) && !has_fences || !self.has_steps() && is_of_steps(key) {
            return Ok(None);
        }
        match self.send(key, Op::Get, false).await? {
            Answer::Entry(entry) => Ok(entry),
            _ => Err(other_operation()),
        }
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replacement = replacement(expected, value, ttl);
        self.swap(key, replacement, true).await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let expected = expected.clone();
        self.swap(key, Op::Remove { expected }, true).await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.net.listen(number_of(key)?)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.process).finish()
    }
}

/// The endpoint of all calls.
pub(super) const ENDPOINT: &str = "sim.pay";

/// What the keys of fences begin with.
const FENCE: &str = "idem:#fence:{";
/// What the keys of steps begin with.
const STEPS_OF: &str = "idem:#steps:{";

/// The number of a key, from its name or from the digits in events.
pub(super) fn number_of(key: &str) -> Option<usize> {
    if let Some(key) = key.strip_prefix(STEPS_OF) {
        return number_of(key.strip_suffix('}')?).map(|number| STEPS + number);
    }
    if let Some(key) = key.strip_prefix(FENCE) {
        return number_of(key.strip_suffix('}')?).map(|number| FENCES + number);
    }
    let name = NAMES.iter().find(|(_, name)| {
        let digits = name.rsplit(':').next();
        name == key || digits.is_some_and(|digits| digits.starts_with(key))
    });
    name.map(|(number, _)| *number)
}

/// The names of all keys. Calls with a token have other keys than calls without one.
///
/// They are made before the first run, because they must not draw the random numbers of a run.
pub(super) static NAMES: LazyLock<Vec<(usize, String)>> = LazyLock::new(|| {
    let calls = (0..KEYS).flat_map(|key| {
        let plain = Fingerprint::of(&(key as u64,));
        let with_token = Fingerprint::of(&(key as u64, tokens::bound_to_subject()));
        [plain, with_token].map(|digest| {
            let digest = digest.expect("numbers and strings can be encoded");
            (key, format!("idem:{ENDPOINT}:{digest}"))
        })
    });
    let tokens = (0..TOKENS).map(|token| (KEYS + token, tokens::key_of(token)));
    // The slots of key 0 have the numbers of the other keys, which no call of such a run has.
    let slots = (1..KEYS).filter_map(|slot| {
        let digest = Fingerprint::of(&(0_u64,)).ok()?;
        let digest = digest.slot(u8::try_from(slot).ok()?);
        Some((slot, format!("idem:{ENDPOINT}:{digest}")))
    });
    calls.chain(tokens).chain(slots).collect()
});

fn numbered(claims: &[(&str, &Bytes)]) -> Vec<(usize, Bytes)> {
    let number = |key| number_of(key).expect("the simulation made this key");
    let claims = claims.iter();
    let claims = claims.map(|(key, value)| (number(key), Bytes::clone(value)));
    claims.collect()
}

fn other_operation() -> StoreError {
    let what = "the answer of another operation";
    StoreError::new(StoreErrorKind::Misconfigured, what)
}

fn replacement(expected: &Bytes, value: &Bytes, ttl: Duration) -> Op {
    Op::Replace {
        expected: expected.clone(),
        value: value.clone(),
        ttl,
    }
}

/// Whether this is the key of the steps of a call.
fn is_of_steps(key: &str) -> bool {
    key.starts_with(STEPS_OF)
}
