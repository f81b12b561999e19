//! How a call and its body are polled: with pauses, crashes, drops and panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Caller, Failed, Outcome};
use crate::simulation::history::{BodyEnd, Kind};
use crate::simulation::net::Gate;
use crate::simulation::source::{Polled, as_polled};

/// A planned panic.
pub(super) struct Planned;

/// How a call ended for its caller.
pub(super) enum Ended {
    With(Outcome),
    Panicked,
    Dropped,
    Died,
}

/// The caller's side of a call.
pub(super) struct Polling<'a> {
    pub(super) caller: &'a Caller,
    pub(super) made: Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    pub(super) began: u64,
    pub(super) polls: u32,
    pub(super) frozen_until: Option<u64>,
}

impl Polling<'_> {
    fn finish(&mut self, ended: Ended) -> Poll<Ended> {
        let Caller { process, call, .. } = *self.caller;
        let made = self.made.take();
        as_polled(Some(Polled { process, call }), || drop(made));
        Poll::Ready(ended)
    }
}

impl Future for Polling<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        let Caller {
            net,
            process,
            call,
            plan,
            ..
        } = self.caller;
        let (process, call) = (*process, *call);
        match net.gate(process, (call, false), context.waker()) {
            Gate::Open => {}
            Gate::Paused => return Poll::Pending,
            Gate::Crashed => return self.finish(Ended::Died),
        }
        let now = net.now();
        if self.frozen_until.is_some_and(|until| now < until) {
            return Poll::Pending;
        }
        if net.delays_polls() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.polls += 1;
        let late = |after| now >= self.began + after;
        if plan.dropped_at_poll == Some(self.polls) || plan.dropped_after.is_some_and(late) {
            return self.finish(Ended::Dropped);
        }
        let made = self
            .made
            .as_mut()
            .expect("a call is not polled after its end");
        let polled = as_polled(Some(Polled { process, call }), || {
            catch_unwind(AssertUnwindSafe(|| made.as_mut().poll(context)))
        });
        match polled {
            Ok(Poll::Ready(outcome)) => self.finish(Ended::With(outcome)),
            Ok(Poll::Pending) => {
                if let Some((at, lasts)) = plan.frozen
                    && at == self.polls
                {
                    let until = now + lasts;
                    self.caller.note(Kind::Frozen { call, until });
                    net.nudge(until, process, call);
                    self.frozen_until = Some(until);
                }
                Poll::Pending
            }
            Err(panic) if panic.is::<Planned>() => self.finish(Ended::Panicked),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// A body that records when it is polled and how it ends.
pub(super) struct Body {
    caller: Caller,
    work: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    has_begun: bool,
    has_ended: bool,
}

impl Body {
    pub(super) fn new(caller: Caller) -> Self {
        let work = caller.clone().body();
        Self::of(caller, work)
    }

    pub(super) fn of(caller: Caller, work: impl Future<Output = Outcome> + Send + 'static) -> Self {
        let work = Box::pin(work);
        Self {
            caller,
            work,
            has_begun: false,
            has_ended: false,
        }
    }

    fn record_end(&mut self, end: BodyEnd) {
        self.has_ended = true;
        let call = self.caller.call;
        self.caller.note(Kind::BodyEnded { call, end });
    }
}

impl Future for Body {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let Caller { call, process, .. } = self.caller;
        // The engine may poll the body in its own task.
        match self.caller.net.gate(process, (call, true), context.waker()) {
            Gate::Open => {}
            Gate::Paused => return Poll::Pending,
            Gate::Crashed => return Poll::Ready(Err(Failed::Body)),
        }
        let first = !std::mem::replace(&mut self.has_begun, true);
        self.caller.note(Kind::BodyPolled { call, first });
        let work = self.work.as_mut();
        let polled = catch_unwind(AssertUnwindSafe(|| work.poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(outcome)) => {
                let holds_err = self.caller.plan.holds_err();
                self.record_end(match &outcome {
                    Ok(_) => BodyEnd::Success,
                    Err(Failed::Unsure) if holds_err => BodyEnd::Unknown,
                    Err(Failed::Unsure) => BodyEnd::Held,
                    Err(_) => BodyEnd::Failure,
                });
                Poll::Ready(outcome)
            }
            Err(panic) => {
                self.record_end(BodyEnd::Panic);
                resume_unwind(panic)
            }
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.has_begun && !self.has_ended {
            self.record_end(BodyEnd::Stopped);
        }
    }
}
