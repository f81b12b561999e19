//! The functions with the attribute that a worker calls.

use std::time::Duration;

use idempotence::{Error, Once, idempotent};
use tokio::time::sleep;

use super::next_tick;
use crate::broken::Fault;
use crate::history::{Answer, Call, Endpoint, History, HistoryEvent, Key};

/// One call, and the work of its body.
pub(super) struct Job<'a> {
    pub(super) call: Call,
    pub(super) key: Key,
    pub(super) history: &'a History,
    /// How long the body takes.
    pub(super) lasts: Duration,
    pub(super) fails: bool,
    /// Whether the body ends together with other bodies.
    pub(super) ends_at_tick: bool,
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

/// A mistake that the check must find: no renewal, and no stop.
#[idempotent(
    name = "pay",
    key = "key",
    ttl = "1h",
    lease = "400ms",
    replay = true,
    renew = false,
    on_lease_lost = "continue"
)]
async fn pay_without_renewal(key: u64, job: &Job<'_>) -> Result<Once<u64>, Failure> {
    job.work().await.map(Once::Executed)
}

/// A mistake that the check must find: no stop.
#[idempotent(
    name = "report",
    key = "key",
    ttl = "400ms",
    release = true,
    on_lease_lost = "continue"
)]
async fn report_without_stop(key: u64, job: &Job<'_>) -> Result<u64, Failure> {
    job.work().await
}

impl Job<'_> {
    /// Makes the call.
    pub(super) async fn call(&self, fault: Fault) -> Answer {
        let own = |value: u64| {
            assert_eq!(value, self.call.value());
            Answer::Success
        };
        let once = |once: Once<u64>| match once {
            Once::Executed(value) => own(value),
            Once::Replayed(value) => Answer::Replay(Call::of(value)),
        };
        let number = self.key.number;
        let outcome = match self.key.endpoint {
            Endpoint::Pay if fault == Fault::NeverRenews => {
                pay_without_renewal(number, self).await.map(once)
            }
            Endpoint::Pay => pay(number, self).await.map(once),
            Endpoint::Order => order(number, self).await.map(once),
            Endpoint::Report if fault == Fault::NeverStops => {
                report_without_stop(number, self).await.map(own)
            }
            Endpoint::Report => report(number, self).await.map(own),
            Endpoint::Turn => turn(number, self).await.map(own),
            Endpoint::Coupon => coupon(number, self).await.map(own),
        };
        match outcome {
            Ok(answer) => answer,
            Err(Failure::Body) => Answer::Failed,
            Err(Failure::Refused(error)) => match error {
                Error::InProgress(_) => Answer::InProgress,
                Error::AlreadyDone(_) | Error::Taken(_) => Answer::Done,
                Error::LeaseLost(_) => Answer::LeaseLost,
                Error::Unavailable(_) => Answer::Unavailable,
                other => {
                    eprintln!("{}: {other:?}", self.call);
                    Answer::Unexpected
                }
            },
        }
    }

    /// The body. Its effect is its line in the history, which is written before any process can observe the effect.
    async fn work(&self) -> Result<u64, Failure> {
        self.history
            .note(HistoryEvent::Started(self.call, self.key));
        let mut running = Running {
            job: self,
            effect: false,
        };
        sleep(self.lasts).await;
        if self.ends_at_tick {
            next_tick().await;
        }
        if self.fails {
            return Err(Failure::Body);
        }
        running.effect = true;
        Ok(self.call.value())
    }
}

/// A running body. Notes its end, also on a drop.
struct Running<'a> {
    job: &'a Job<'a>,
    effect: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Job { call, key, .. } = *self.job;
        self.job.history.note(if self.effect {
            HistoryEvent::Effect(call, key)
        } else {
            HistoryEvent::Ended(call, key)
        });
    }
}
