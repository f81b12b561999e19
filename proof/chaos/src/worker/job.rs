//! The functions that a worker calls, with the attribute.

use std::time::Duration;

use idempotence::{Error, Once, idempotent};
use tokio::time::sleep;

use crate::broken::Fault;
use crate::history::{Call, Endpoint, History, Key, Told, What};

/// One call, and what its body has to do.
pub(super) struct Job<'a> {
    pub(super) call: Call,
    pub(super) key: Key,
    pub(super) history: &'a History,
    /// How long the body takes.
    pub(super) lasts: Duration,
    pub(super) fails: bool,
}

enum Failure {
    Body,
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

#[idempotent(name = "pay", key = "key", ttl = "1h", lease = "400ms", replay = true)]
async fn pay(key: u64, job: &Job<'_>) -> Result<Once<u64>, Failure> {
    job.work().await.map(Once::Executed)
}

#[idempotent(
    name = "order",
    key = "key",
    ttl = "1h",
    lease = "400ms",
    replay = true,
    wait = "700ms"
)]
async fn order(key: u64, job: &Job<'_>) -> Result<Once<u64>, Failure> {
    job.work().await.map(Once::Executed)
}

#[idempotent(name = "report", key = "key", ttl = "400ms", release = true)]
async fn report(key: u64, job: &Job<'_>) -> Result<u64, Failure> {
    job.work().await
}

#[idempotent(
    name = "turn",
    key = "key",
    ttl = "400ms",
    release = true,
    wait = "300ms"
)]
async fn turn(key: u64, job: &Job<'_>) -> Result<u64, Failure> {
    job.work().await
}

#[idempotent(name = "coupon", key = "key", ttl = "1h", release = false)]
async fn coupon(key: u64, job: &Job<'_>) -> Result<u64, Failure> {
    job.work().await
}

/// Broken on purpose: what the check must find.
#[idempotent(
    name = "pay",
    key = "key",
    ttl = "1h",
    lease = "400ms",
    replay = true,
    renew = false,
    on_lease_lost = "continue"
)]
async fn careless(key: u64, job: &Job<'_>) -> Result<Once<u64>, Failure> {
    job.work().await.map(Once::Executed)
}

/// The same.
#[idempotent(
    name = "report",
    key = "key",
    ttl = "400ms",
    release = true,
    on_lease_lost = "continue"
)]
async fn stubborn(key: u64, job: &Job<'_>) -> Result<u64, Failure> {
    job.work().await
}

impl Job<'_> {
    /// Makes the call.
    pub(super) async fn call(&self, fault: Fault) -> Told {
        let own = |value: u64| {
            assert_eq!(value, self.call.value());
            Told::Success
        };
        let once = |once: Once<u64>| match once {
            Once::Executed(value) => own(value),
            Once::Replayed(value) => Told::Replay(Call::of(value)),
        };
        let number = self.key.number;
        let outcome = match self.key.endpoint {
            Endpoint::Pay if fault == Fault::NeverRenews => careless(number, self).await.map(once),
            Endpoint::Pay => pay(number, self).await.map(once),
            Endpoint::Order => order(number, self).await.map(once),
            Endpoint::Report if fault == Fault::NeverStops => stubborn(number, self).await.map(own),
            Endpoint::Report => report(number, self).await.map(own),
            Endpoint::Turn => turn(number, self).await.map(own),
            Endpoint::Coupon => coupon(number, self).await.map(own),
        };
        match outcome {
            Ok(told) => told,
            Err(Failure::Body) => Told::Failed,
            Err(Failure::Refused(error)) => match error {
                Error::InProgress(_) => Told::InProgress,
                Error::AlreadyDone(_) | Error::Taken(_) => Told::Done,
                Error::LeaseLost(_) => Told::Lost,
                Error::Unavailable(_) => Told::Unavailable,
                other => {
                    eprintln!("{}: {other:?}", self.call);
                    Told::Trouble
                }
            },
        }
    }

    /// The body. Its effect is the line about it, which is written before anybody can know of it.
    async fn work(&self) -> Result<u64, Failure> {
        self.history.note(What::Started(self.call, self.key));
        let mut running = Running {
            job: self,
            effect: false,
        };
        sleep(self.lasts).await;
        if self.fails {
            return Err(Failure::Body);
        }
        running.effect = true;
        Ok(self.call.value())
    }
}

/// A body at work. However it ends, the end is noted.
struct Running<'a> {
    job: &'a Job<'a>,
    effect: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Job { call, key, .. } = *self.job;
        self.job.history.note(if self.effect {
            What::Effect(call, key)
        } else {
            What::Ended(call, key)
        });
    }
}
