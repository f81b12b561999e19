//! Sends redemptions and returns of a token, and gives the token back if no answer arrives.

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
use crate::record::token::TokenState;
use crate::store::{StoreError, StoreErrorKind, Swap};

/// A redemption or a return that has no answer yet. Dropping it gives the token back in the background.
pub(super) struct SendGuard {
    owned: Arc<Owned>,
    /// The record of the token that a redemption expects.
    expected: Bytes,
    /// The store may have applied a send, or may still apply it.
    in_doubt: AtomicBool,
    /// The caller knows that the token is redeemed.
    is_redeemed: bool,
    /// The token belongs to a call, which gives it back itself.
    is_of_call: bool,
    scheduler: Option<Arc<Scheduler>>,
}

impl SendGuard {
    /// For a redemption.
    pub(super) fn for_redemption(owned: &Arc<Owned>) -> Self {
        Self {
            owned: Arc::clone(owned),
            expected: record::FRESH,
            in_doubt: AtomicBool::new(false),
            is_redeemed: false,
            is_of_call: false,
            // Read now, because the guard may be dropped outside of the runtime.
            scheduler: Scheduler::current(),
        }
    }

    /// For a redemption by a call.
    pub(super) fn for_call(owned: &Arc<Owned>) -> Self {
        let mut guard = Self::for_redemption(owned);
        guard.is_of_call = true;
        guard
    }

    /// For a token that is redeemed and now given back.
    pub(super) fn for_return(owned: &Arc<Owned>) -> Self {
        let mut guard = Self::for_redemption(owned);
        (guard.is_redeemed, guard.in_doubt) = (true, AtomicBool::new(true));
        guard
    }

    /// Sends the redemption.
    pub(super) async fn redeem(&self) -> Result<Swap, StoreError> {
        let before = self.in_doubt.swap(true, Ordering::Relaxed);
        let answer = self.owned.exchange(&self.expected, &self.owned.used).await;
        let in_doubt = match &answer {
            // An earlier send can no longer be applied: the record that it expects was replaced, and is never stored again.
            Ok(_) => false,
            Err(error) => before || error.kind() == StoreErrorKind::Unknown,
        };
        self.in_doubt.store(in_doubt, Ordering::Relaxed);
        answer
    }

    /// Whether another owner has redeemed the token and given it back, so that `current` is redeemable.
    pub(super) fn may_expect(&self, current: &Bytes) -> bool {
        *current != self.expected && record::read(current) == Some(TokenState::Free)
    }

    pub(super) fn expect(&mut self, current: Bytes) {
        self.expected = current;
    }

    /// Notes that the answer is known.
    pub(super) fn defuse(&mut self) {
        *self.in_doubt.get_mut() = false;
    }
}

impl Drop for SendGuard {
    fn drop(&mut self) {
        if !*self.in_doubt.get_mut() {
            return;
        }
        let expected = std::mem::take(&mut self.expected);
        if self.is_of_call {
            *self.owned.unconfirmed() = Some(expected);
            return;
        }
        let job = GiveBackJob {
            owned: Arc::clone(&self.owned),
            expected,
            was_redeemed: self.is_redeemed,
        };
        background::start_cleanup(job, self.scheduler.take());
    }
}

/// Gives a token back in the background.
struct GiveBackJob {
    owned: Arc<Owned>,
    expected: Bytes,
    /// The caller knows that the token was redeemed.
    was_redeemed: bool,
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
        let swap = background::retry_until(&owned.shared, until, send).await?;
        if self.was_redeemed && swap != Swap::Absent {
            owned.emit_given_back(began);
        }
        Ok(())
    }

    fn on_end(&mut self, undone: Option<&'static str>) {
        if let Some(why) = undone {
            let event = Event::new(&self.owned.site, EventKind::NotWithdrawn);
            self.owned.shared.observers().emit(&event.because(why));
        }
    }
}

/// How long a background job tries to give a token back.
const LONGEST: Duration = Duration::from_mins(1);
