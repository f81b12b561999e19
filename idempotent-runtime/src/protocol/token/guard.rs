//! What is sent for a token, and what is left of that when nobody waits for the answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::owned::Owned;
use crate::observe::{Event, EventKind};
use crate::protocol::background;
use crate::protocol::background::Job;
use crate::protocol::retry::StoreFuture;
use crate::protocol::scheduler::Scheduler;
use crate::protocol::shared::Shared;
use crate::record::token as record;
use crate::record::token::State;
use crate::store::{StoreError, StoreErrorKind, Swap};

/// What is sent for a token, until its answer is known. Dropped before, the token is given back in the background.
pub(super) struct SendGuard {
    owned: Arc<Owned>,
    /// What a redemption expects in the place of the token.
    expected: Bytes,
    /// A send may have been applied, or may yet be.
    in_doubt: AtomicBool,
    /// Its caller knows that it is redeemed.
    redeemed: bool,
    /// It is a call's, which gives it back by itself.
    of_a_call: bool,
    scheduler: Option<Arc<Scheduler>>,
}

impl SendGuard {
    /// A redemption.
    pub(super) fn taking(owned: &Arc<Owned>) -> Self {
        Self {
            owned: Arc::clone(owned),
            expected: record::FRESH,
            in_doubt: AtomicBool::new(false),
            redeemed: false,
            of_a_call: false,
            // It may be dropped outside of the runtime.
            scheduler: Scheduler::current(),
        }
    }

    /// A redemption by a call.
    pub(super) fn of_a_call(owned: &Arc<Owned>) -> Self {
        let mut sent = Self::taking(owned);
        sent.of_a_call = true;
        sent
    }

    /// What is redeemed, on its way back.
    pub(super) fn returning(owned: &Arc<Owned>) -> Self {
        let mut sent = Self::taking(owned);
        (sent.redeemed, sent.in_doubt) = (true, AtomicBool::new(true));
        sent
    }

    pub(super) async fn take(&self) -> Result<Swap, StoreError> {
        let before = self.in_doubt.swap(true, Ordering::Relaxed);
        let answer = self.owned.exchange(&self.expected, &self.owned.used).await;
        let in_doubt = match &answer {
            // Were an earlier send still on its way: what it expects is gone, and never comes back.
            Ok(_) => false,
            Err(error) => before || error.kind() == StoreErrorKind::Unknown,
        };
        self.in_doubt.store(in_doubt, Ordering::Relaxed);
        answer
    }

    /// Whether another has redeemed the token and given it back, so that this stands there now.
    pub(super) fn may_expect(&self, standing: &Bytes) -> bool {
        *standing != self.expected && record::read(standing) == Some(State::Free)
    }

    pub(super) fn expect(&mut self, standing: Bytes) {
        self.expected = standing;
    }

    pub(super) fn is_answered(&mut self) {
        *self.in_doubt.get_mut() = false;
    }
}

impl Drop for SendGuard {
    fn drop(&mut self) {
        if !*self.in_doubt.get_mut() {
            return;
        }
        let expected = std::mem::take(&mut self.expected);
        if self.of_a_call {
            *self.owned.doubt() = Some(expected);
            return;
        }
        let left = GiveBackJob {
            owned: Arc::clone(&self.owned),
            expected,
            redeemed: self.redeemed,
        };
        background::start_cleanup(left, self.scheduler.take());
    }
}

/// A token that nobody has redeemed, for all that its caller knows.
struct GiveBackJob {
    owned: Arc<Owned>,
    expected: Bytes,
    redeemed: bool,
}

impl Job for GiveBackJob {
    fn shared(&self) -> &Arc<Shared> {
        &self.owned.shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let (owned, expected) = (&*self.owned, &self.expected);
        let began = owned.shared.observers().start_time();
        let until = Instant::now() + LONGEST;
        let send = || -> StoreFuture<'_, Swap> { Box::pin(owned.take_back(expected)) };
        let swap = background::retry_until(until, owned.shared.deadline(), send).await?;
        if self.redeemed && swap != Swap::Absent {
            owned.is_given_back(began);
        }
        Ok(())
    }

    fn end(&mut self, undone: Option<&'static str>) {
        if let Some(why) = undone {
            let event = Event::new(&self.owned.site, EventKind::NotWithdrawn);
            self.owned.shared.observers().emit(&event.because(why));
        }
    }
}

/// How long it is tried to give a token back without a caller.
const LONGEST: Duration = Duration::from_mins(1);
