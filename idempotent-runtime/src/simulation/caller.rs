//! A caller: makes a call, polls, freezes or drops it, and records its answer.

mod polling;

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use self::polling::{Body, Ended, Planned, Polling};
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::history::{CallId, Kind, Returned};
use super::link::ENDPOINT;
use super::net::{KEYS, Net};
use super::tokens::{OPERATION, SUBJECT};
use crate::error::Error;
use crate::handle::Idempotency;
use crate::policy::Policy;
use crate::private::{
    AnyIntent, Call, Endpoint, Fenced, IdempotencyContext, ReplayMode, Returns, replaying, returns,
};

/// One call as it is made in one process.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) net: Arc<Net>,
    pub(super) call: CallId,
    pub(super) plan: CallPlan,
    pub(super) key: KeyPlan,
    pub(super) process: usize,
    pub(super) idempotency: Idempotency,
}

pub(super) type Outcome = Result<u64, Failed>;

#[derive(Debug)]
pub(super) enum Failed {
    Refused(Error),
    Body,
    /// The body does not know its outcome, so its call holds the key.
    Unsure,
}

impl Failed {
    fn is_unsure(&self) -> bool {
        matches!(self, Self::Unsure)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Caller {
    /// Makes the call, and records how it ends.
    pub(super) async fn run(self) {
        let (call, process) = (self.call, self.process);
        self.note(Kind::Made { call, process });
        if let Some(after) = self.plan.dropped_after {
            self.net.nudge(self.net.now() + after, process, call);
        }
        let policy = self.plan.policy(&self.key, self.net.mutant);
        let made: Pin<Box<dyn Future<Output = Outcome> + Send>> = if self.plan.key >= KEYS {
            Box::pin(self.clone().redeemed())
        } else if self.plan.built {
            Box::pin(self.clone().built(policy))
        } else {
            Box::pin(self.clone().written(policy))
        };
        let polling = Polling {
            began: self.net.now(),
            made: Some(made),
            polls: 0,
            frozen_until: None,
            caller: &self,
        };
        let kind = match polling.await {
            Ended::With(outcome) => Kind::Returned {
                call,
                returned: returned(outcome),
            },
            Ended::Panicked => Kind::Returned {
                call,
                returned: Returned::Panicked,
            },
            Ended::Dropped => Kind::Dropped { call },
            Ended::Died => Kind::Died { call },
        };
        self.note(kind);
    }

    /// The call in the code of the attribute.
    async fn written(self, policy: Policy) -> Outcome {
        let handle = self.idempotency.clone();
        let mut call = Call::new(Endpoint::named(ENDPOINT), policy, Some(&handle));
        call.part(&(self.plan.key as u64));
        if let Some(also) = self.plan.also {
            call.also();
            call.also_part(&(also as u64));
        }
        if let Some(plan) = self.plan.token {
            call.token(&plan.text(), &SUBJECT, OPERATION);
        }
        if let Some(payload) = &self.plan.payload {
            call.payload(payload);
        }
        if self.key.replay {
            call.set_policy(policy.replay());
        }
        let returns = returns::<Outcome>();
        match (self.key.replay, self.plan.holds_err()) {
            (true, true) => {
                let returns = replaying(returns).hold_err(Failed::is_unsure);
                self.answered(returns, call).await
            }
            (true, false) => self.answered(replaying(returns), call).await,
            (false, true) => {
                self.answered(returns.hold_err(Failed::is_unsure), call)
                    .await
            }
            (false, false) => self.answered(returns, call).await,
        }
    }

    async fn answered<K>(self, returns: Returns<Outcome, Error, K>, call: Call) -> Outcome
    where
        K: ReplayMode<Outcome> + Send + Sync + 'static,
    {
        let mut held = match call.claim().await {
            Ok(held) => held,
            Err(error) => return returns.refused(error),
        };
        let (finishes, holds) = (self.plan.finishes, self.plan.holds());
        self.note_fence(&held.context());
        let body = Body::new(self);
        if finishes {
            return match returns.finish(held, Box::pin(body)).await {
                Ok(outcome) => outcome,
                Err(error) => returns.refused(error),
            };
        }
        let outcome = {
            let mut body = pin!(body);
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        };
        match outcome {
            Ok(unsure @ Err(Failed::Unsure)) if holds => {
                held.hold();
                unsure
            }
            Ok(outcome) => {
                returns.settle(held, &outcome).await;
                outcome
            }
            Err(error) => returns.refused(error),
        }
    }

    /// Notes the number of a body that is about to run, unless it runs without a guard.
    fn note_fence(&self, context: &IdempotencyContext<Fenced<AnyIntent>>) {
        if let Some(took_over) = context.took_over() {
            self.note(Kind::Fenced {
                call: self.call,
                number: context.fence(),
                took_over,
            });
        }
    }

    /// The call without the attribute.
    async fn built(self, policy: Policy) -> Outcome {
        let mut call = self
            .idempotency
            .call(ENDPOINT)
            .key(&(self.plan.key as u64))
            .ttl(policy.ttl)
            .release(policy.release)
            .renew(policy.renew)
            .on_cancel(policy.on_cancel)
            .on_lease_lost(policy.when_lost())
            .on_store_error(policy.on_store_error.unwrap_or_default())
            .settle(policy.settle);
        if let Some(plan) = self.plan.token {
            call = call.token(&plan.text(), &SUBJECT, OPERATION);
        }
        if self.plan.gives_back() {
            call = call.give_back();
        }
        if let Some(payload) = &self.plan.payload {
            call = call.payload(payload);
        }
        if let Some(also) = self.plan.also {
            call = call.also(&(also as u64));
        }
        if let Some(permits) = self.key.permits {
            call = call.permits(permits);
        }
        if let Some(lease) = policy.lease {
            call = call.lease(lease);
        }
        if let Some(wait) = policy.wait {
            call = call.wait(wait);
        }
        if self.plan.has_steps {
            let body = async |cx| Body::of(self.clone(), self.clone().stepped(cx)).await;
            return call.run_with(body).await;
        }
        if self.plan.holds_err() {
            let unsure = Failed::is_unsure;
            return match (self.key.replay, self.plan.finishes) {
                (true, true) => {
                    let call = call.replay().hold_err(unsure);
                    call.run_to_end(Body::new(self)).await
                }
                (true, false) => call.replay().hold_err(unsure).run(Body::new(self)).await,
                (false, true) => call.hold_err(unsure).run_to_end(Body::new(self)).await,
                (false, false) => call.hold_err(unsure).run(Body::new(self)).await,
            };
        }
        match (self.key.replay, self.plan.finishes) {
            (true, true) => call.replay().run_to_end(Body::new(self)).await,
            (true, false) => call.replay().run(Body::new(self)).await,
            (false, true) => call.run_to_end(Body::new(self)).await,
            (false, false) => call.run(Body::new(self)).await,
        }
    }

    /// The redemption of a token without a call.
    async fn redeemed(self) -> Outcome {
        let plan = self.plan.token.expect("a redemption has a token");
        let tokens = self.idempotency.tokens();
        let redeemed = tokens.redeem(&plan.text(), &SUBJECT, OPERATION).await?;
        let outcome = Body::new(self).await;
        if outcome.is_err() && plan.gives_back {
            redeemed.give_back().await?;
        }
        outcome
    }

    async fn body(self) -> Outcome {
        let call = self.call;
        let effect = self.plan.steps.len() / 2;
        for (at, step) in self.plan.steps.iter().enumerate() {
            if at == effect {
                self.note(Kind::Effect { call });
            }
            match step {
                0 => yield_now().await,
                step => sleep(Duration::from_millis(*step)).await,
            }
        }
        self.ends()
    }

    /// How the body ends.
    pub(super) fn ends(&self) -> Outcome {
        match self.plan.ends {
            BodyEnds::Success => Ok(self.call.0 as u64),
            BodyEnds::Hold => Err(Failed::Unsure),
            BodyEnds::Failure => Err(Failed::Body),
            // A panic that the hook does not print.
            BodyEnds::Panic => resume_unwind(Box::new(Planned)),
        }
    }

    pub(super) fn note(&self, kind: Kind) {
        self.net.record(Some(self.plan.key), kind);
    }
}

fn returned(outcome: Outcome) -> Returned {
    let error = match outcome {
        Ok(call) => return Returned::Value(CallId(usize::try_from(call).unwrap_or(usize::MAX))),
        Err(Failed::Body | Failed::Unsure) => return Returned::BodyFailed,
        Err(Failed::Refused(error)) => error,
    };
    match error {
        Error::InProgress(_) if !error.is_duplicate() => Returned::InUse,
        Error::InProgress(_) => Returned::InProgress,
        Error::Taken(_) => Returned::Taken,
        Error::OutcomeUnknown(_) => Returned::Unknown,
        Error::ResultUnavailable(_) => Returned::NoResult,
        Error::AlreadyDone(_) => Returned::Done,
        Error::PayloadMismatch(_) => Returned::Mismatch,
        Error::LeaseLost(_) => Returned::LeaseLost,
        Error::Unavailable(_) => Returned::Unavailable,
        Error::TokenUsed(_) => Returned::TokenUsed,
        Error::TokenUnknown(_) => Returned::TokenUnknown,
        other => Returned::Otherwise(other.code()),
    }
}
