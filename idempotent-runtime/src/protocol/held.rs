//! A call that may run its body: from the first poll of the body to the end of the call.

mod further;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use tracing::span::Entered;

use crate::error::{Error, Failure};
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::{OnCancel, OnLeaseLost, Release};
use crate::protocol::body_context::IdempotencyContext;
use crate::protocol::ending::{Ending, SettleOutcome};
use crate::protocol::fence;
use crate::protocol::lease::Lease;
use crate::protocol::mark;
use crate::protocol::number;
use crate::protocol::settle;
use crate::protocol::shared::Shared;
use crate::protocol::state::Phase;
use crate::record::kept::Kept;
use crate::result::body_outcome::BodyOutcome;
use crate::result::replay_mode::ReplayMode;

/// A call that may run its body: its claim has the key, or it runs without a claim (`on_store_error = "run"`, `when = false`, the
/// setting `disabled`).
///
/// # Cancellation
///
/// If it is dropped before [`settle`](Self::settle), `on_cancel` decides about the key. After a panic of the body the key stays taken
/// until the lease expires.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Held {
    pub(crate) lease: Arc<Lease>,
    guard: Guard,
    /// The lease started a moment ago, so the first poll of the body does not read the clock.
    is_fresh: bool,
    /// The body is being polled. If `Held` is dropped now, the body panicked.
    is_polling: bool,
    /// The claim is marked if the body panics.
    marks_panic: bool,
    /// The call also holds further keys.
    has_further: bool,
}

/// The guard of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The claim.
    Claim,
    /// The claim, of a call whose token is not redeemed yet.
    Unredeemed,
    /// Nothing: the option `when` was false, or the setting `disabled` is true.
    Bypassed,
    /// Nothing: the store is unavailable. The claim may still be stored.
    None { may_be_stored: bool },
    /// Nothing: the call has ended.
    Ended,
}

impl Held {
    pub(crate) fn new(lease: Arc<Lease>, guard: Guard) -> Self {
        Self {
            lease,
            guard,
            is_fresh: true,
            is_polling: false,
            marks_panic: false,
            has_further: false,
        }
    }

    /// A call that claims no key. With a fence it draws a number if it can.
    pub(crate) async fn bypassed(lease: Arc<Lease>) -> Self {
        let held = Self::new(lease, Guard::Bypassed);
        if held.lease.call().policy.draws_unguarded() {
            // Boxed, because it is seldom needed.
            Box::pin(number::draw(&held.lease)).await;
        }
        held
    }

    /// What the body may know about the call. Sends nothing.
    pub fn context<I>(&self) -> IdempotencyContext<I> {
        IdempotencyContext::of_lease(&self.lease, self.guard == Guard::Claim)
    }

    /// Polls the body, unless the lease is lost.
    pub fn poll_body<F: Future + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        body: Pin<&mut F>,
    ) -> Poll<Result<F::Output, Error>> {
        // Only this function is compiled for each body, so the rest is in functions of their own.
        if let Some(error) = self.stop_if_lost() {
            return Poll::Ready(Err(error));
        }
        self.is_polling = true;
        let span = self.enter_span();
        let polled = body.poll(cx);
        leave_span(span);
        self.end_poll(cx, polled.is_pending());
        polled.map(Ok)
    }

    fn enter_span(&self) -> Entered<'_> {
        self.lease.call().span.enter()
    }

    fn end_poll(&mut self, cx: &Context<'_>, is_pending: bool) {
        self.is_polling = false;
        if is_pending && self.guard == Guard::Claim {
            if self.has_further {
                self.lease.all().for_each(|lease| lease.watch(cx.waker()));
            } else {
                self.lease.watch(cx.waker());
            }
        }
    }

    /// Runs code of the body inside the span of the call.
    pub fn in_span<T>(&self, run: impl FnOnce() -> T) -> T {
        self.lease.call().span.in_scope(run)
    }

    /// Ends the call: stores its result, frees the key, or leaves the key taken, as the policy says.
    ///
    /// Takes at most one round trip, and at most the handle's deadline. With a fence it takes one more round trip, or two if the
    /// claim got no answer, and at most the deadline once more. After that it continues in the background.
    ///
    /// # Cancellation
    ///
    /// The outcome of the call is known, so settling continues in the background.
    pub fn settle(
        mut self,
        end: impl Into<BodyOutcome>,
    ) -> impl Future<Output = SettleOutcome> + Send {
        let end = end.into();
        if self.has_further {
            return Either::Right(Box::pin(self.settle_several(&end)));
        }
        let ending = self.take_ending(&end);
        Either::Left(settle::settle(
            ending.map(|ending| (Arc::clone(&self.lease), ending)),
        ))
    }

    /// Ends the call. `keep` reads the outcome before anything is awaited.
    pub(crate) fn settle_with<R, K: ReplayMode<R>>(
        self,
        keep: K,
        outcome: &R,
        success: bool,
    ) -> impl Future<Output = SettleOutcome> + Send + use<R, K> {
        let end = self.lease.call().end_of(keep, outcome, success);
        self.settle(end)
    }

    /// Polls the body until it returns or the lease is lost.
    pub(crate) async fn run<F: Future + ?Sized>(
        mut self,
        mut body: Pin<Box<F>>,
    ) -> Result<(Self, F::Output), Error> {
        let outcome = poll_fn(|context| self.poll_body(context, body.as_mut())).await?;
        Ok((self, outcome))
    }

    /// What all calls of the handle share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.lease.call().shared
    }

    /// Ends the call if its lease is lost and `on_lease_lost` is `stop`. Returns the error of the call in this case.
    fn stop_if_lost(&mut self) -> Option<Error> {
        let is_fresh = std::mem::take(&mut self.is_fresh);
        if is_fresh || self.guard != Guard::Claim {
            return None;
        }
        let (lost, why) = self.lose_if_expired()?;
        let site = lost.call().site.clone();
        if self.lease.call().policy.when_lost() == OnLeaseLost::Continue {
            return None;
        }
        self.guard = Guard::Ended;
        // Before the caller gets the error, because it may call again at once.
        for lease in self.lease.all() {
            lease.finish(None);
        }
        let error = Error::LeaseLost(Failure::new(
            site,
            format!(
                "the lease was lost because {why}, so the body was stopped and its work may be done or not; \
                 check what it did before you repeat the call"
            ),
            None,
        ));
        self.lease.call().emit_refusal(&error);
        Some(error)
    }

    /// Whether the claim has the key. If not, the body runs unguarded.
    pub fn is_claimed(&self) -> bool {
        self.guard == Guard::Claim
    }

    pub(crate) fn has_token(&self) -> bool {
        self.lease.call().token.is_some()
    }

    /// From now on a drop of the call withdraws its claim, because its token is not redeemed yet.
    pub(crate) fn await_token(&mut self) {
        self.guard = Guard::Unredeemed;
    }

    /// The token is redeemed, so the body may run.
    pub(crate) fn confirm(&mut self) {
        self.guard = Guard::Claim;
        self.lease.in_flight().set_phase(Phase::Running);
    }

    /// Leaves the end of the call to the code that redeems its token, or claims its other keys.
    pub(crate) fn abandon(&mut self) {
        self.guard = Guard::Ended;
    }

    /// Ends the call. Returns what must be sent while the caller waits.
    fn take_ending(&mut self, end: &BodyOutcome) -> Option<Ending> {
        self.lease.call().emit_outcome(end.success);
        if let Some(why) = end.kept.why_not()
            && !end.is_chosen
        {
            self.lease
                .call()
                .emit(EventKind::NotKept, |event| event.because(why));
        }
        if !end.success && matches!(end.kept, Kept::Unknown) {
            let call = self.lease.call();
            call.emit(EventKind::OutcomeUnknown, |event| event);
        }
        if !end.success && !end.kept.keeps_key() {
            self.owe_token();
        }
        let guard = std::mem::replace(&mut self.guard, Guard::Ended);
        let ending = match guard {
            Guard::Claim => {
                let ending = self.lease.begin_settling(end.success, &end.kept);
                fence::note_end(&self.lease, end, ending)
            }
            Guard::None {
                may_be_stored: true,
            } => {
                let ending = self.lease.ending(end.success, &end.kept);
                fence::note_end(&self.lease, end, ending)
            }
            Guard::None {
                may_be_stored: false,
            }
            | Guard::Bypassed
            | Guard::Unredeemed
            | Guard::Ended => None,
        };
        match ending {
            Some(ending) if guard == Guard::Claim => return Some(ending),
            // The store was unavailable before the body, so the caller does not wait for it again.
            Some(ending) => settle::settle_in_background(Arc::clone(&self.lease), ending),
            None => self.lease.finish_unsent(),
        }
        None
    }

    /// With `give_back`: the end of the call makes its token redeemable again, because the work was not done.
    fn owe_token(&self) {
        if let Some(token) = &self.lease.call().token
            && self.lease.call().policy.give_back
        {
            token.return_on_settle();
        }
    }

    /// Marks the claim if the body panics: its outcome is then unknown.
    pub fn mark_after_panic(&mut self) {
        self.marks_panic = true;
    }

    /// Ends the call as a failure, and does not free its key: the key stays taken until the lease expires, because the body may
    /// have done its work. The claim is marked in the background. Returns whether the call still has the key.
    pub fn hold(mut self) -> bool {
        if self.guard == Guard::Claim {
            // The body may have blocked its thread past the lease, so that nothing has noticed the end of the lease yet.
            self.lease.lose_if_expired();
        }
        self.lease.call().emit_outcome(false);
        let ending = |lease: &Lease| {
            if mutation!(HoldFreesKey) {
                return Some(Ending::Remove);
            }
            lease.hold_to_ttl()
        };
        let guard = std::mem::replace(&mut self.guard, Guard::Ended);
        match guard {
            Guard::Claim
            | Guard::None {
                may_be_stored: true,
            } => self.end_without_result(ending, guard == Guard::Claim),
            Guard::None {
                may_be_stored: false,
            }
            | Guard::Bypassed
            | Guard::Unredeemed
            | Guard::Ended => {
                self.lease.finish_unsent();
                false
            }
        }
    }

    /// Ends the call whose body stored nothing. Sends the `ending` of each lease in the background, else marks the claim if `is_unknown`,
    /// unless the lease is lost. Returns whether it is not lost.
    fn end_without_result(
        &self,
        ending: impl Fn(&Lease) -> Option<Ending>,
        is_unknown: bool,
    ) -> bool {
        // A lost lease of one key is a lost lease of the call.
        let mut was_lost = false;
        for lease in self.lease.all() {
            was_lost |= lease.drop_body();
        }
        let marks = is_unknown && !was_lost && self.lease.call().policy.release == Release::OnError;
        for lease in self.lease.all() {
            match ending(lease).filter(|_| !was_lost) {
                Some(ending) => settle::settle_in_background(Arc::clone(lease), ending),
                None if marks => mark::mark_in_background(Arc::clone(lease)),
                None => lease.finish_unsent(),
            }
        }
        !was_lost
    }
}

fn leave_span(span: Entered<'_>) {
    drop(span);
}

impl Drop for Held {
    fn drop(&mut self) {
        // A panic of the code around the body, for example of the option `success`, also counts: the outcome is unknown.
        let panicked = self.is_polling || std::thread::panicking();
        if self.guard != Guard::Ended {
            self.lease.call().emit_end(EventKind::of_a_dropped_call());
        }
        match self.guard {
            Guard::Ended | Guard::Bypassed => return,
            Guard::None {
                may_be_stored: false,
            } => return self.lease.finish_unsent(),
            // The body never ran.
            Guard::Unredeemed => {
                return settle::settle_in_background(Arc::clone(&self.lease), Ending::Withdraw);
            }
            Guard::Claim
            | Guard::None {
                may_be_stored: true,
            } => {}
        }
        let frees = self.lease.call().policy.on_cancel == OnCancel::Release && !panicked;
        if frees || mutation!(ReturnsAfterUnknown) {
            self.owe_token();
        }
        let ending = |lease: &Lease| match frees {
            true => Some(lease.free()),
            false if mutation!(ReturnsAfterUnknown) => Some(Ending::SetExpiry(lease.good_until())),
            false => lease.hold_to_ttl(),
        };
        let is_unknown = panicked && self.marks_panic && self.guard == Guard::Claim;
        self.end_without_result(ending, is_unknown);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held")
            .field(&self.lease.call().site)
            .finish()
    }
}
