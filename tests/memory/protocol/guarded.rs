//! The code that the attribute writes around a body, with the policy as a value.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::fingerprint::{Fingerprint, Parts};
use idempotent_runtime::private::{
    Call, Endpoint, Refusal, Replay, ReplayMode, Returns, replaying, returns,
};
use idempotent_runtime::store::Entry;
use idempotent_runtime::{Error, Idempotency, MemoryStore, Policy, Store};
use tokio::task::yield_now;

#[derive(Debug)]
pub(crate) enum Failed {
    Refused(Error),
    Body,
}

impl Failed {
    pub(crate) fn refusal(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Body => panic!("the body failed, the call was not refused"),
        }
    }
}

/// An endpoint with its policy, its handle and its store.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) idempotency: Idempotency,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) endpoint: &'static str,
    pub(crate) policy: Policy,
}

impl Guarded {
    pub(crate) fn on(store: impl Store, policy: Policy) -> Self {
        let store: Arc<dyn Store> = Arc::new(store);
        Self {
            idempotency: Idempotency::new(Arc::clone(&store)),
            store,
            endpoint: "test.pay",
            policy,
        }
    }

    pub(crate) fn in_memory(policy: Policy) -> Self {
        Self::on(MemoryStore::new(), policy)
    }

    /// The same endpoint with another handle on the same store. The store cannot distinguish it from another process.
    pub(crate) fn elsewhere(&self) -> Self {
        Self {
            idempotency: Idempotency::new(Arc::clone(&self.store)),
            ..self.clone()
        }
    }

    pub(crate) fn call(&self, id: u64) -> Call {
        let mut call = Call::new(
            Endpoint::named(self.endpoint),
            self.policy,
            Some(&self.idempotency),
        );
        call.part(&id);
        call
    }

    pub(crate) fn call_with_token(
        &self,
        id: u64,
        token: &str,
        subject: u64,
        operation: &'static str,
    ) -> Call {
        let mut call = self.call(id);
        call.token(token, &subject, operation);
        call
    }

    pub(crate) async fn run<R>(
        &self,
        id: u64,
        body: impl Future<Output = Result<R, ()>>,
    ) -> Result<R, Failed> {
        run(self.call(id), body).await
    }

    /// A call with `replay = true`.
    pub(crate) async fn replaying<T, Via>(
        &self,
        id: u64,
        body: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error>
    where
        Result<T, Error>: Replay<Via>,
    {
        let guarded = Self {
            policy: self.policy.replay(),
            ..self.clone()
        };
        let returns = replaying(returns::<Result<T, Error>>());
        answered(returns, guarded.call(id), body).await
    }

    pub(crate) fn key(&self, id: u64) -> String {
        self.key_of(&(id,))
    }

    /// The key of a call with these key parts.
    pub(crate) fn key_of(&self, parts: &impl Parts) -> String {
        let fingerprint = Fingerprint::of(parts).unwrap();
        format!("idem:{}:{fingerprint}", self.endpoint)
    }

    pub(crate) async fn entry(&self, id: u64) -> Option<Entry> {
        self.store.get(&self.key(id)).await.unwrap()
    }

    /// The letter of the state in the stored record: `R` for running, `D` for done.
    pub(crate) async fn state_of(&self, id: u64) -> u8 {
        self.entry(id).await.unwrap().value[b"idem1 ".len()]
    }

    /// The first line of the record of the fence.
    pub(crate) async fn fence_line(&self, id: u64) -> Option<String> {
        let key = format!("idem:#fence:{{{}}}", self.key(id));
        let stored = self.store.get(&key).await.unwrap()?.value;
        let line = stored.split(|byte| *byte == b'\n').next().unwrap();
        Some(String::from_utf8(line.to_vec()).unwrap())
    }

    /// How long the key remains taken.
    pub(crate) async fn taken_for(&self, id: u64) -> Option<Duration> {
        self.entry(id).await.map(|entry| entry.ttl.unwrap())
    }

    /// Waits for the background work of the handle.
    pub(crate) async fn settled(&self) {
        let drained = self.idempotency.drain(secs(60)).await;
        assert_eq!(drained, Ok(()));
    }
}

/// Runs a call with this body.
pub(crate) async fn run<R>(
    call: Call,
    body: impl Future<Output = Result<R, ()>>,
) -> Result<R, Failed> {
    let mut held = call.claim().await.map_err(Refusal::into_error)?;
    let outcome = {
        let mut body = pin!(body);
        poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    let outcome = outcome.map_err(Failed::Refused)?;
    held.settle(outcome.is_ok()).await;
    outcome.map_err(|()| Failed::Body)
}

/// Runs a call like the code that the attribute writes.
pub(crate) async fn answered<R, E, K: ReplayMode<R>>(
    returns: Returns<R, E, K>,
    call: Call,
    body: impl Future<Output = R>,
) -> R {
    let mut held = match call.claim().await {
        Ok(held) => held,
        Err(error) => return returns.refused(error),
    };
    let outcome = {
        let mut body = pin!(body);
        poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    match outcome {
        Ok(outcome) => {
            returns.settle(held, &outcome).await;
            outcome
        }
        Err(error) => returns.refused(error),
    }
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A body that is pending a few times.
pub(crate) async fn yielding<R>(outcome: R) -> R {
    for _ in 0..3 {
        yield_now().await;
    }
    outcome
}

pub(crate) async fn forever() -> Result<(), ()> {
    std::future::pending().await
}

/// The body of a call that must not run.
pub(crate) async fn never<T>() -> Result<T, Error> {
    panic!("the body of a duplicate ran")
}
