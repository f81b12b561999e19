//! How far one call has come: the only place where that is written down, for the call, its renewals and its duplicates.

use std::sync::{Arc, LazyLock};
use std::task::Waker;

use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::scheduler::{Keeper, Slot};

/// What changes while a call goes on. The diagram of its phases is in the page of [`protocol`](crate::protocol).
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// What duplicates in this process are told, once they need not follow the call any more.
    pub(crate) left: Option<Found>,
    /// A duplicate has looked, and may wait for the next phase.
    pub(crate) followed: bool,
    /// The record of the claim that has the key.
    pub(crate) record: Bytes,
    /// The first send of the claim that may have been applied.
    pub(crate) since: Instant,
    /// When the lease ends.
    pub(crate) good_until: Instant,
    /// A renewal was sent, so the record may stay in the store for longer than it was put for.
    pub(crate) renewed: bool,
    /// The last renewal failed.
    pub(crate) failing: bool,
    /// When the record of a call that is over is to end; a renewal that is still on its way moves it.
    pub(crate) hold_until: Option<Instant>,
    /// The task that polls the body.
    pub(crate) waker: Option<Waker>,
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) slot: Option<Slot>,
}

/// How far a call has come.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// The store has not answered yet. It will have by then, or be asked again, if the call is still polled.
    Asking(Option<Instant>),
    /// The call waits for the end of another one, made elsewhere, whose record this is.
    Waiting(Bytes),
    /// The call has the key, and its body may run.
    Running,
    /// The body has ended. The lease is renewed until the end of the call is in the store.
    Settling,
    /// The body was dropped. The lease is renewed no more, and what frees the key, if anything, is on its way.
    Dropped,
    /// The lease ended while the body ran, for this reason.
    Lost(&'static str),
    /// The call is over, and nothing is sent for it any more.
    Over(Found),
}

/// What is known of the store when a call is over.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Nothing,
    /// This record is there.
    Record(Bytes),
    /// The store does not answer.
    Trouble,
}

/// What a duplicate sees of a call.
pub(crate) struct Seen {
    pub(crate) phase: Phase,
    /// The record of the claim that has the key, and when its lease ends.
    pub(crate) record: Bytes,
    pub(crate) good_until: Instant,
}

impl State {
    /// A call that has asked nobody yet.
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Asking(None),
            left: None,
            followed: false,
            record: Bytes::new(),
            since: *NOT_BEGUN,
            good_until: *NOT_BEGUN,
            renewed: false,
            failing: false,
            hold_until: None,
            waker: None,
            keeper: None,
            slot: None,
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen {
            phase: match &self.left {
                Some(found) => Phase::Over(found.clone()),
                None => self.phase.clone(),
            },
            record: self.record.clone(),
            good_until: self.good_until,
        }
    }

    /// Ends all renewal.
    pub(crate) fn renew_no_more(&mut self) {
        self.waker = None;
        if let (Some(slot), Some(keeper)) = (self.slot.take(), &self.keeper) {
            keeper.forget(slot);
        }
    }
}

/// An instant in the past, for a lease that has no beginning yet. Looking it up once is cheaper than a clock.
static NOT_BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
