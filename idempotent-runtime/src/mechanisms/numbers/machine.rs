//! A machine id that is leased through the store, so that no two processes have the same id.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::sequence::{Clock, MACHINES, Sequence};
use crate::error::Site;
use crate::key::kind::RecordKind;
use crate::observe::{Event, EventKind};
use crate::protocol::retry::retry;
use crate::protocol::shared::Shared;
use crate::protocol::tracker::TrackerToken;
use crate::record::call::{self as record, Head};
use crate::record::owner::Owner;
use crate::store::{Claim, StoreError, StoreErrorKind, Swap};
use crate::sync::{Mutex, MutexGuard};
use crate::world;
use crate::world::Moment;

/// The machine id of one [`OrderNumbers`](crate::OrderNumbers), and the numbers made with it.
pub(super) struct Machine {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Site,
    lease: Duration,
    /// How long the id stays reserved after the end of a lease: no process may have it.
    cooldown: Duration,
    sequence: Mutex<Sequence>,
}

/// The record of a leased machine id in the store.
pub(super) struct LeasedId {
    key: String,
    record: Bytes,
    /// The start of the lease: the time when the first request that the store may have applied was sent.
    since: Instant,
}

impl Machine {
    /// Leases a machine id.
    pub(super) async fn new(
        shared: Arc<Shared>,
        site: Site,
        lease: Duration,
        cooldown: Duration,
    ) -> Result<(Self, LeasedId), NotLeased> {
        let clock = Clock::new(world::time_of_day()).ok_or(NotLeased::Clock)?;
        let machine = Self {
            shared,
            site,
            lease,
            cooldown,
            sequence: Mutex::new(Sequence::without_machine(clock)),
        };
        let leased = machine.lease_id().await?;
        Ok((machine, leased))
    }

    /// The next number; `None` while no machine id is leased.
    pub(super) fn next(&self) -> Option<u64> {
        self.sequence().next()
    }

    /// The time of a number that is made now, in milliseconds since [`EPOCH`](super::sequence::EPOCH).
    pub(super) fn millis(&self) -> u64 {
        self.sequence().millis()
    }

    /// Renews the lease, or leases another id after a loss. Ends when the last clone of the
    /// [`OrderNumbers`](crate::OrderNumbers) is dropped, and gives the id back.
    pub(super) async fn run(
        self: Arc<Self>,
        leased: LeasedId,
        mut shutdown: oneshot::Receiver<TrackerToken>,
    ) {
        let mut due = leased.since + self.lease / 3;
        let (mut leased, mut failing) = (Some(leased), false);
        let _tracker_token = loop {
            if let Ok(piece) = timeout_at(due, &mut shutdown).await {
                break piece;
            }
            // A store may be the user's code. Its panic must not end this task.
            let result = AssertUnwindSafe(self.renew_or_lease(&mut leased)).catch_unwind();
            let failed = match result.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => {
                    let panicked = StoreError::new(StoreErrorKind::Unknown, "the store panicked");
                    Some(NotLeased::Store(panicked))
                }
            };
            due = match (&failed, &leased) {
                (None, Some(leased)) => leased.since + self.lease / 3,
                _ => Instant::now() + self.lease / 10,
            };
            let first = !std::mem::replace(&mut failing, failed.is_some());
            if let (true, Some(error)) = (first, failed) {
                self.report_failure(|event| event.caused_by(&error));
            }
        };
        self.release(leased).await;
    }

    async fn renew_or_lease(&self, leased: &mut Option<LeasedId>) -> Result<(), NotLeased> {
        if let Some(current) = leased {
            let sent = Instant::now();
            match self.renew(current, self.lease + self.cooldown).await? {
                // This is correct even long after the end of the lease, because no other process has had the id in the
                // meantime.
                Swap::Done => {
                    current.since = sent;
                    self.sequence().extend_until(sent + self.lease);
                    return Ok(());
                }
                Swap::Absent | Swap::Other(_) => {
                    self.sequence().stop();
                    *leased = None;
                    self.report_failure(|event| event.because(RECORD_LOST));
                }
            }
        }
        *leased = Some(self.lease_id().await?);
        Ok(())
    }

    async fn lease_id(&self) -> Result<LeasedId, NotLeased> {
        let clock = Clock::new(world::time_of_day()).ok_or(NotLeased::Clock)?;
        let ttl = self.lease + self.cooldown;
        let record = record::running(&Head {
            key: None,
            keys: None,
            owner: Owner::random(),
            payload: None,
            now: Moment::now(),
            ttl,
        });
        let store = self.shared.store();
        // Start at a random id, because most ids are free.
        let [first, second, ..] = world::random_bits().to_le_bytes();
        let anywhere = u64::from(u16::from_le_bytes([first, second]));
        for machine in (anywhere..anywhere + MACHINES).map(|id| id % MACHINES) {
            let endpoint = &self.site.endpoint;
            let key =
                (self.shared).key_of(RecordKind::Machine, format_args!("{endpoint}:{machine}"));
            let since = Instant::now();
            // Without an answer the id may stay taken until its record expires.
            match retry(self.deadline(), || store.claim(&key, &record, ttl)).await? {
                Claim::Taken(_) => {}
                Claim::Claimed => {
                    let mut sequence = self.sequence();
                    sequence.start(machine, clock);
                    sequence.extend_until(since + self.lease);
                    return Ok(LeasedId { key, record, since });
                }
            }
        }
        Err(NotLeased::AllTaken)
    }

    /// Gives the machine id back. Its record stays for the cooldown.
    async fn release(&self, leased: Option<LeasedId>) {
        let ahead = self.sequence().stop();
        if let Some(leased) = leased {
            // Without an answer the record also stays for the rest of the lease.
            let _ = self.renew(&leased, ahead + self.cooldown).await;
        }
    }

    async fn renew(&self, leased: &LeasedId, ttl: Duration) -> Result<Swap, StoreError> {
        let (store, LeasedId { key, record, .. }) = (self.shared.store(), leased);
        retry(self.deadline(), || store.replace(key, record, record, ttl)).await
    }

    /// The time for one request to the store, short enough for a second attempt before the lease ends.
    fn deadline(&self) -> Duration {
        self.shared.deadline().min(self.lease / 4)
    }

    fn report_failure<'a>(&'a self, more: impl FnOnce(Event<'a>) -> Event<'a>) {
        let event = Event::new(&self.site, EventKind::RenewalFailed);
        self.shared.observers().emit(&more(event));
    }

    fn sequence(&self) -> MutexGuard<'_, Sequence> {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const RECORD_LOST: &str =
    "the record of its machine id was removed from the store; another id is leased";

/// Why there is no machine id.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLeased {
    #[error("the store did not answer the request for a machine id")]
    Store(#[from] StoreError),
    #[error("all {MACHINES} machine ids are leased, or in the cooldown after a lease")]
    AllTaken,
    #[error(
        "the clock of this machine is wrong, because it shows a time before 2025; set the clock"
    )]
    Clock,
}
