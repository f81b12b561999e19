//! A claim on its way: what its answers mean, and what happens to it when nobody waits for them any more.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::Error;
use crate::observe::EventKind;
use crate::policy::OnStoreError;
use crate::protocol::ending::Ending;
use crate::protocol::held::Guard;
use crate::protocol::lease::Lease;
use crate::protocol::retry;
use crate::protocol::retry::{Sending, Tries};
use crate::protocol::settle;
use crate::protocol::state::Phase;
use crate::store::{Claim, StoreError, StoreErrorKind};
use crate::world::naive;

/// A claim that was sent, or is about to be. Dropped, it is withdrawn, and those who follow are told.
pub(crate) struct Claiming<'a> {
    lease: &'a Arc<Lease>,
    /// The first send that may have been applied, unless its answer is conclusive.
    since: Option<Instant>,
    /// The last send was not the first of those.
    again: bool,
    /// Somebody else sees to what those who follow are told.
    handed_on: bool,
    /// Nobody else tells that the call was dropped.
    alone: bool,
}

/// Why a claim did not win the key.
pub(crate) enum NotWon {
    /// This stands under the key.
    Taken(Bytes),
    /// The store gave no answer in time.
    Trouble(StoreError),
    /// It did, but nobody looked before the lease was over.
    TooLate(StoreError),
    /// The store cannot serve the call.
    Refused(Error),
}

impl<'a> Claiming<'a> {
    pub(crate) fn new(lease: &'a Arc<Lease>) -> Self {
        Self {
            lease,
            since: None,
            again: false,
            handed_on: false,
            alone: true,
        }
    }

    /// A claim that may have been sent before, of a call that tells by itself how it ends.
    pub(crate) fn since(lease: &'a Arc<Lease>, since: Option<Instant>) -> Self {
        Self {
            lease,
            since,
            again: false,
            handed_on: false,
            alone: false,
        }
    }

    pub(crate) fn send(&mut self) -> Sending<'a, Claim> {
        self.again = self.since.is_some();
        self.since.get_or_insert_with(Instant::now);
        let lease = self.lease;
        let store = lease.call.shared.store();
        store.claim(lease.key(), &lease.record, lease.call.times.expiry)
    }

    /// Sends, and tells those who follow until when there will be an answer.
    pub(crate) async fn ask(&mut self, tries: &Tries) -> Result<Claim, StoreError> {
        let sending = tries.once(self.send());
        let answered = Instant::now() + sending.limit();
        self.lease.flight.reach(Phase::Asking(Some(answered)));
        sending.await
    }

    /// The store has put the claim, so the lease begins. `None` if it was over before anybody looked at the answer, which
    /// cannot be if that was there `at_once`.
    pub(crate) fn start_lease(&mut self, at_once: bool) -> Option<Guard> {
        let since = self.sent_at()?;
        if !self.lease.start(since, at_once) {
            return None;
        }
        self.since = None;
        self.handed_on = true;
        Some(Guard::Claim)
    }

    /// What the lease is counted from.
    fn sent_at(&self) -> Option<Instant> {
        let since = self.since?;
        if naive!(DeadlineFromReply) {
            return Some(Instant::now());
        }
        Some(since)
    }

    /// Leaves it to another to go on with this call. Returns since when its claim may stand.
    pub(crate) fn hand_on(&mut self) -> Option<Instant> {
        self.handed_on = true;
        self.since.take()
    }

    /// Goes on until the answer is conclusive or the time is up.
    pub(crate) async fn conclude(
        &mut self,
        mut answer: Result<Claim, StoreError>,
        mut tries: Tries,
    ) -> Result<Guard, NotWon> {
        let lease = self.lease;
        let mut told = None;
        let trouble = loop {
            let error = match answer {
                Ok(Claim::Claimed) => return self.start_lease(false).ok_or_else(too_late),
                Ok(Claim::Taken(other)) => {
                    self.since = None;
                    return Err(NotWon::Taken(other));
                }
                Err(error) => error,
            };
            let sent = self.since;
            if error.kind() != StoreErrorKind::Unknown && !self.again {
                self.since = None;
            }
            match error.kind() {
                StoreErrorKind::Misconfigured => {
                    return Err(NotWon::Refused(Error::store(
                        lease.call.site.clone(),
                        error,
                    )));
                }
                StoreErrorKind::Full => {
                    // A full store still reads: a duplicate gets its own answer.
                    let standing = lease.call.shared.store().get(lease.key());
                    match tries.once(standing).await {
                        // An earlier send has put it: one that got no answer, or one of the client's own.
                        Ok(Some(entry)) if entry.value == lease.record => {
                            self.since = sent;
                            answer = Ok(Claim::Claimed);
                            continue;
                        }
                        Ok(Some(entry)) => {
                            self.since = None;
                            return Err(NotWon::Taken(entry.value));
                        }
                        Ok(None) | Err(_) => break error,
                    }
                }
                _ if !tries.again().await => break retry::more_telling(told, error),
                _ => {}
            }
            told = Some(retry::more_telling(told, error));
            answer = self.ask(&tries).await;
        };
        Err(NotWon::Trouble(trouble))
    }

    /// What becomes of a call that knows of no other with its key while the store is away.
    pub(crate) fn without_the_store(&mut self, trouble: StoreError) -> Result<Guard, Error> {
        match self.lease.call.policy.on_store_error.unwrap_or_default() {
            OnStoreError::Refuse => Err(Error::store(self.lease.call.site.clone(), trouble)),
            OnStoreError::Run => Ok(self.unguarded(&trouble)),
        }
    }

    fn unguarded(&mut self, trouble: &StoreError) -> Guard {
        let call = &self.lease.call;
        call.tell(EventKind::Unguarded, |event| event.caused_by(trouble));
        let since = self.since.take();
        // Nothing guards the body, so it need not be in time.
        self.lease.start(since.unwrap_or_else(Instant::now), true);
        self.handed_on = true;
        Guard::None {
            perhaps_put: since.is_some(),
        }
    }
}

fn too_late() -> NotWon {
    let late = "the claim was answered only after its lease had ended";
    NotWon::TooLate(StoreError::new(StoreErrorKind::Unknown, late))
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if self.alone && !self.handed_on {
            self.lease.call.ended(EventKind::of_a_dropped_call());
        }
        // Its lease is begun, so that it is withdrawn for as long as it may stand in the way.
        if let Some(since) = self.sent_at() {
            self.lease.begin(since);
            settle::hand_over(Arc::clone(self.lease), Ending::Withdraw);
        } else if !self.handed_on {
            self.lease.leave(None);
        }
    }
}
