//! A machine id that is leased through the store, so that two processes never have the same.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::sequence::{Clock, MACHINES, Sequence};
use crate::error::Site;
use crate::key::kind::Kind;
use crate::observe::{Event, EventKind};
use crate::protocol::retry::asked;
use crate::protocol::shared::Shared;
use crate::protocol::tracker::Piece;
use crate::record::call as record;
use crate::record::owner::Owner;
use crate::store::{Claim, StoreError, StoreErrorKind, Swap};
use crate::sync::{Mutex, MutexGuard};
use crate::world;

/// The machine id of a handle, whichever it is, and the numbers that it makes.
pub(super) struct Machine {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Site,
    lease: Duration,
    rest: Duration,
    sequence: Mutex<Sequence>,
}

/// A machine id that is this handle's, in the store.
pub(super) struct Held {
    key: String,
    record: Bytes,
    /// The lease counts from here: the first send that may have been applied.
    since: Instant,
}

impl Machine {
    /// Leases a machine id; `rest` is how long nobody has it after its lease.
    pub(super) async fn leased(
        shared: Arc<Shared>,
        site: Site,
        lease: Duration,
        rest: Duration,
    ) -> Result<(Self, Held), NotLeased> {
        let clock = Clock::set(world::time_of_day()).ok_or(NotLeased::Clock)?;
        let machine = Self {
            shared,
            site,
            lease,
            rest,
            sequence: Mutex::new(Sequence::without_machine(clock)),
        };
        let held = machine.lease().await?;
        Ok((machine, held))
    }

    /// The next number; `None` while no machine id is leased.
    pub(super) fn next(&self) -> Option<u64> {
        self.sequence().next()
    }

    /// The time that numbers have now.
    pub(super) fn millis(&self) -> u64 {
        self.sequence().millis()
    }

    /// Renews the lease, or makes a new one, until it is told that nobody needs it any more.
    pub(super) async fn keep(self: Arc<Self>, held: Held, mut unneeded: oneshot::Receiver<Piece>) {
        let mut due = held.since + self.lease / 3;
        let (mut held, mut failing) = (Some(held), false);
        let _piece = loop {
            if let Ok(piece) = timeout_at(due, &mut unneeded).await {
                break piece;
            }
            // A store is somebody else's code: its panic must not end this task.
            let kept = AssertUnwindSafe(self.keep_once(&mut held)).catch_unwind();
            let failed = match kept.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => {
                    let panicked = StoreError::new(StoreErrorKind::Unknown, "the store panicked");
                    Some(NotLeased::Store(panicked))
                }
            };
            due = match (&failed, &held) {
                (None, Some(held)) => held.since + self.lease / 3,
                _ => Instant::now() + self.lease / 10,
            };
            let first = !std::mem::replace(&mut failing, failed.is_some());
            if let (true, Some(error)) = (first, failed) {
                self.tell_of_failure(|event| event.caused_by(&error));
            }
        };
        self.release(held).await;
    }

    async fn keep_once(&self, held: &mut Option<Held>) -> Result<(), NotLeased> {
        if let Some(known) = held {
            let sent = Instant::now();
            match self.renew(known, self.lease + self.rest).await? {
                // Also long after the lease has ended: nobody had the id meanwhile.
                Swap::Done => {
                    known.since = sent;
                    self.sequence().good_until(sent + self.lease);
                    return Ok(());
                }
                Swap::Absent | Swap::Other(_) => {
                    self.sequence().end();
                    *held = None;
                    self.tell_of_failure(|event| event.because(GONE));
                }
            }
        }
        *held = Some(self.lease().await?);
        Ok(())
    }

    async fn lease(&self) -> Result<Held, NotLeased> {
        let clock = Clock::set(world::time_of_day()).ok_or(NotLeased::Clock)?;
        let lasts = self.lease + self.rest;
        let record = record::running(Owner::random(), None, world::time_of_day(), lasts);
        let store = self.shared.store();
        // Where the others are is not known, and does not have to be: most ids are free.
        let [first, second, ..] = world::random_bits().to_le_bytes();
        let anywhere = u64::from(u16::from_le_bytes([first, second]));
        for machine in (anywhere..anywhere + MACHINES).map(|id| id % MACHINES) {
            let endpoint = &self.site.endpoint;
            let key = (self.shared).key_of(Kind::Machine, format_args!("{endpoint}:{machine}"));
            let since = Instant::now();
            // Who got no answer leaves an id taken that nobody has; it is free again when its record expires.
            match asked(self.deadline(), || store.claim(&key, &record, lasts)).await? {
                Claim::Taken(_) => {}
                Claim::Claimed => {
                    let mut sequence = self.sequence();
                    sequence.begin(machine, clock);
                    sequence.good_until(since + self.lease);
                    return Ok(Held { key, record, since });
                }
            }
        }
        Err(NotLeased::AllTaken)
    }

    /// Gives the machine id back: it stays taken until it has rested.
    async fn release(&self, held: Option<Held>) {
        let ahead = self.sequence().end();
        if let Some(held) = held {
            // Without an answer it rests for longer.
            let _ = self.renew(&held, ahead + self.rest).await;
        }
    }

    async fn renew(&self, held: &Held, lasts: Duration) -> Result<Swap, StoreError> {
        let (store, Held { key, record, .. }) = (self.shared.store(), held);
        asked(self.deadline(), || {
            store.replace(key, record, record, lasts)
        })
        .await
    }

    /// How long the store is asked: short enough to ask again before the lease ends.
    fn deadline(&self) -> Duration {
        self.shared.deadline().min(self.lease / 4)
    }

    fn tell_of_failure<'a>(&'a self, more: impl FnOnce(Event<'a>) -> Event<'a>) {
        let event = Event::new(&self.site, EventKind::RenewalFailed);
        self.shared.observers().tell(&more(event));
    }

    fn sequence(&self) -> MutexGuard<'_, Sequence> {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const GONE: &str = "the record of its machine id is gone from the store; another id is leased";

/// Why there is no machine id.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLeased {
    #[error("the store cannot be asked for a machine id")]
    Store(#[from] StoreError),
    #[error("all {MACHINES} machine ids are leased, or rest after a lease")]
    AllTaken,
    #[error("the clock of this machine is wrong: it says a time before 2025")]
    Clock,
}
