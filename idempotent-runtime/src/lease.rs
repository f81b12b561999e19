//! A held claim: how long it is good for, and what its end does to the key.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::Instant;

pub(crate) mod keeper;

use crate::error::{Error, Failure, Site};
use crate::finish::Finish;
use crate::idempotency::Idempotency;
use crate::policy::{OnCancel, OnLeaseLost, Policy, Release, Times};
use crate::record::{Owner, State, line};
use crate::settle::{self, Ending};
use crate::store::{StoreError, StoreErrorKind, Swap};
use crate::tries::Try;
use keeper::{Keeper, Slot};

/// A call that may run its body. Only a successful claim makes one (or `on_store_error = "run"`).
///
/// # Cancellation
///
/// Dropped before [`settle`](Self::settle), the key is left as the policy's `on_cancel` says; dropped
/// by a panic of the body, it is held until the lease ends.
pub struct Held {
    lease: Arc<Lease>,
    guard: Guard,
    /// The claim was won a moment ago, so its lease needs no look at the clock.
    fresh: bool,
    polling: bool,
}

/// What protects a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The claim.
    Claim,
    /// Nothing: the store is unavailable. The claim may have been put all the same.
    None { perhaps_put: bool },
    /// Nothing any more: the end of the call has been dealt with.
    Over,
}

impl Held {
    pub(crate) fn new(lease: Arc<Lease>, guard: Guard) -> Self {
        Self {
            lease,
            guard,
            fresh: true,
            polling: false,
        }
    }

    /// Polls the body, unless the lease is over.
    pub fn poll_body<F: Future + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        body: Pin<&mut F>,
    ) -> Poll<Result<F::Output, Error>> {
        if let Some(error) = self.stopped() {
            return Poll::Ready(Err(error));
        }
        self.polling = true;
        let polled = body.poll(cx);
        self.polling = false;
        match polled {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending => {
                self.wait(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Ends the call: completes the record, releases the key, or leaves it, as the policy says.
    ///
    /// Takes at most one round trip, and at most the handle's deadline; what is not settled by then
    /// is settled without the caller.
    ///
    /// # Cancellation
    ///
    /// The outcome of the call is known, so what is left to send is sent without the caller.
    pub fn settle(mut self, success: bool) -> impl Future<Output = ()> + Send {
        let attended = self.end(success).map(|ending| {
            let lease = Arc::clone(&self.lease);
            settle::attended(lease, ending)
        });
        async move {
            if let Some(attended) = attended {
                attended.await;
            }
        }
    }

    /// What is left to send with the caller waiting.
    fn end(&mut self, success: bool) -> Option<Ending> {
        let guard = std::mem::replace(&mut self.guard, Guard::Over);
        let ending = match guard {
            Guard::Claim => self.lease.begin_settling(success),
            Guard::None { perhaps_put: true } => self.lease.ending(success),
            Guard::None { perhaps_put: false } | Guard::Over => None,
        };
        if ending.is_none() {
            self.lease.end();
        }
        // The store was unavailable before the body: the caller does not wait for it again.
        if guard == Guard::Claim {
            return ending;
        }
        if let Some(ending) = ending {
            settle::hand_over(Arc::clone(&self.lease), ending);
        }
        None
    }

    /// Runs the body and settles, in a task of its own once the caller has dropped the future.
    pub fn finish<R: Send + 'static>(
        self,
        body: Pin<Box<dyn Future<Output = R> + Send>>,
        success: fn(&R) -> bool,
    ) -> Finish<R> {
        let idempotency = self.lease.idempotency.clone();
        Finish::new(idempotency, self.run(body, success))
    }

    async fn run<R>(
        mut self,
        mut body: Pin<Box<dyn Future<Output = R> + Send>>,
        success: fn(&R) -> bool,
    ) -> Result<R, Error> {
        let outcome =
            std::future::poll_fn(|context| self.poll_body(context, body.as_mut())).await?;
        drop(body);
        self.settle(success(&outcome)).await;
        Ok(outcome)
    }

    /// Why the body must not be polled any more, if so.
    fn stopped(&mut self) -> Option<Error> {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh || self.guard != Guard::Claim || self.lease.good() {
            return None;
        }
        match self.lease.policy.on_lease_lost {
            OnLeaseLost::Stop => {
                self.guard = Guard::Over;
                Some(Error::LeaseLost(Failure::new(
                    self.lease.site.clone(),
                    "the claim could not be renewed in time, so the body was stopped; \
                     its work may be done or not",
                    None,
                )))
            }
            OnLeaseLost::Continue => None,
        }
    }

    fn wait(&self, waker: &Waker) {
        if self.guard == Guard::Claim {
            self.lease.watch(waker);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Also one of the code around the body, such as the option `success`: the outcome is unknown then.
        let panicked = self.polling || std::thread::panicking();
        match self.guard {
            Guard::Over | Guard::None { .. } => {}
            Guard::Claim => {
                let shortened = self.lease.shortened();
                let lost = self.lease.end();
                let released = self.lease.policy.on_cancel == OnCancel::Release && !panicked;
                let ending = if released {
                    Some(Ending::Remove)
                } else {
                    shortened
                };
                if let Some(ending) = ending.filter(|_| !lost) {
                    settle::hand_over(Arc::clone(&self.lease), ending);
                }
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.lease.site).finish()
    }
}

/// A claim as its call and the keeper share it.
pub(crate) struct Lease {
    pub(crate) idempotency: Idempotency,
    pub(crate) site: Site,
    pub(crate) key: String,
    pub(crate) record: Bytes,
    pub(crate) policy: Policy,
    pub(crate) times: Times,
    owner: Owner,
    standing: Mutex<Standing>,
}

struct Standing {
    phase: Phase,
    /// The first send of the claim that may have been applied.
    since: Instant,
    good_until: Instant,
    renewed: bool,
    waker: Option<Waker>,
    keeper: Option<Arc<Keeper>>,
    slot: Option<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Settling,
    Lost,
    Over,
}

impl Lease {
    pub(crate) fn new(
        idempotency: Idempotency,
        site: Site,
        key: String,
        policy: Policy,
        times: Times,
    ) -> Self {
        let owner = Owner::random();
        Self {
            idempotency,
            site,
            key,
            record: line(State::Running, owner, SystemTime::now(), times.expiry),
            policy,
            times,
            owner,
            standing: Mutex::new(Standing {
                phase: Phase::Running,
                since: *NOT_BEGUN,
                good_until: *NOT_BEGUN,
                renewed: false,
                waker: None,
                keeper: None,
                slot: None,
            }),
        }
    }

    /// Counts the lease from `since`; returns when it ends.
    pub(crate) fn begin(&self, since: Instant) -> Instant {
        let mut standing = self.standing();
        standing.since = since;
        standing.good_until = since + self.times.lease;
        standing.good_until
    }

    /// Whether the body may be polled.
    fn good(&self) -> bool {
        let standing = self.standing();
        match standing.phase {
            Phase::Lost => false,
            Phase::Running if Instant::now() >= standing.good_until => {
                self.lose(standing, "it was not renewed in time");
                false
            }
            _ => true,
        }
    }

    /// Has the keeper keep the lease, and wake `waker` if it is lost.
    fn watch(self: &Arc<Self>, waker: &Waker) {
        let mut standing = self.standing();
        match standing.phase {
            Phase::Running => {
                match &mut standing.waker {
                    Some(known) => known.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                self.register(&mut standing);
            }
            // The lease was lost between the look at it and here.
            Phase::Lost if self.policy.on_lease_lost == OnLeaseLost::Stop => waker.wake_by_ref(),
            _ => {}
        }
    }

    /// Has the keeper keep the lease of a call that is over and could not be settled yet.
    pub(crate) fn keep_until_settled(self: &Arc<Self>) {
        let mut standing = self.standing();
        if standing.phase == Phase::Settling {
            self.register(&mut standing);
        }
    }

    fn register(self: &Arc<Self>, standing: &mut Standing) {
        if standing.keeper.is_none() {
            standing.keeper = Keeper::current();
            let due = standing.since + self.times.first_renewal(self.policy.release);
            self.schedule(standing, due);
        }
    }

    /// The keeper of this lease, or of the runtime that this runs on.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.standing().keeper.clone();
        keeper
            .filter(|keeper| !keeper.gone())
            .or_else(Keeper::current)
    }

    /// What the keeper does when its time has come: nothing, or the renewal that this returns.
    fn due(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut standing = self.standing();
        standing.slot = None;
        let now = Instant::now();
        match standing.phase {
            Phase::Lost | Phase::Over => None,
            Phase::Settling if now >= standing.good_until => None,
            Phase::Running if now >= standing.good_until => {
                self.lose(standing, "it was not renewed in time");
                None
            }
            _ if now >= standing.since + self.times.renew_for => {
                let due = standing.good_until;
                self.schedule(&mut standing, due);
                None
            }
            _ => Some(Arc::clone(self).renew(standing.good_until)),
        }
    }

    async fn renew(self: Arc<Self>, good_until: Instant) {
        let sent = Instant::now();
        let limit = self
            .idempotency
            .deadline()
            .min(good_until.duration_since(sent));
        let store = self.idempotency.store();
        let renewal = store.replace(&self.key, &self.record, &self.record, self.times.expiry);
        // A store is somebody else's code: its panic must not end the keeper of all other claims.
        let answer = AssertUnwindSafe(Try::new(renewal, limit));
        let answer = answer.catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unknown,
                "the store panicked",
            ))
        });
        let mut standing = self.standing();
        let running = match standing.phase {
            Phase::Lost | Phase::Over => return,
            phase => phase == Phase::Running,
        };
        match answer {
            Ok(Swap::Done) => {
                standing.renewed = true;
                standing.good_until = standing.good_until.max(sent + self.times.lease);
                self.schedule(&mut standing, sent + self.times.renewal());
            }
            // The record may be gone because the call has just settled it.
            Ok(Swap::Absent | Swap::Other(_)) if !running => {}
            Ok(Swap::Absent) => self.lose(standing, "its record is gone from the store"),
            Ok(Swap::Other(_)) => self.lose(standing, "another record stands under its key"),
            Err(error) => {
                tracing::warn!(
                    target: "idempotence",
                    endpoint = %self.site.endpoint,
                    key = ?self.site.fingerprint,
                    error = &error as &dyn std::error::Error,
                    "a claim could not be renewed yet"
                );
                let due = match error.kind() {
                    StoreErrorKind::Misconfigured => standing.good_until,
                    _ => Instant::now() + (self.times.lease / 20).min(LONGEST_PAUSE),
                };
                self.schedule(&mut standing, due);
            }
        }
    }

    /// What a settled call sends, from here on; `None` if nothing.
    fn begin_settling(&self, success: bool) -> Option<Ending> {
        let mut standing = self.standing();
        let lost = standing.phase == Phase::Lost;
        if !lost {
            standing.phase = Phase::Settling;
        }
        standing.waker = None;
        drop(standing);
        match self.ending(success) {
            // Its work is done all the same: recording it cannot harm, another's record stays.
            Some(complete @ Ending::Complete(_)) if lost => Some(complete),
            _ if lost => None,
            ending => ending,
        }
    }

    /// The end of a call by the table of `release`.
    fn ending(&self, success: bool) -> Option<Ending> {
        match (self.policy.release, success) {
            (Release::Always, _) | (Release::OnError, false) => Some(Ending::Remove),
            (Release::OnError, true) => Some(Ending::Complete(line(
                State::Done,
                self.owner,
                SystemTime::now(),
                self.times.ttl,
            ))),
            (Release::Never, _) => {
                let over = Instant::now() >= self.standing().since + self.times.lease;
                if over {
                    Some(Ending::Remove)
                } else {
                    self.shortened()
                }
            }
        }
    }

    /// With `release = false`, a renewed claim is taken back to `ttl` after the claim.
    fn shortened(&self) -> Option<Ending> {
        let standing = self.standing();
        let end = standing.since + self.times.expiry;
        let left = end.duration_since(Instant::now());
        let renewed = self.policy.release == Release::Never && standing.renewed;
        (renewed && !left.is_zero()).then_some(Ending::Shorten(left))
    }

    /// Ends all renewal. Whether the lease was lost before.
    pub(crate) fn end(&self) -> bool {
        let mut standing = self.standing();
        let lost = standing.phase == Phase::Lost;
        standing.phase = Phase::Over;
        standing.waker = None;
        if let (Some(slot), Some(keeper)) = (standing.slot.take(), &standing.keeper) {
            keeper.forget(slot);
        }
        lost
    }

    pub(crate) fn good_until(&self) -> Instant {
        self.standing().good_until
    }

    fn lose(&self, mut standing: MutexGuard<'_, Standing>, why: &'static str) {
        standing.phase = Phase::Lost;
        let waker = standing.waker.take();
        drop(standing);
        tracing::error!(
            target: "idempotence",
            endpoint = %self.site.endpoint,
            key = ?self.site.fingerprint,
            on_lease_lost = ?self.policy.on_lease_lost,
            "lease lost: {why}; an equal call may run beside this one"
        );
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn schedule(self: &Arc<Self>, standing: &mut Standing, due: Instant) {
        let due = due.min(standing.good_until);
        standing.slot = standing
            .keeper
            .as_ref()
            .map(|keeper| keeper.remember(due, Arc::clone(self)));
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instant in the past, for a lease that has no beginning yet. Looking it up once is cheaper than a clock.
static NOT_BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The longest pause between two tries to renew one claim.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
