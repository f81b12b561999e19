//! Equal calls of this process whose guard begins the transaction: one of them has the turn, and the others wait without a
//! connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::key::fingerprint::Fingerprint;
use crate::protocol::seen::SeenRecord;

/// The database of a call, as the address of its pool's options, and the key of its row.
type KeyPlace = (usize, Arc<str>);

/// What the call with the turn has done.
#[derive(Debug, Clone)]
enum Progress {
    /// It has no row: an equal call of another process may have one.
    Claiming,
    /// It has a row with this payload, in its open transaction, since this instant.
    Claimed(Option<Fingerprint>, Instant),
    /// It has ended, and this record has the key.
    Left(Arc<SeenRecord>),
}

/// The calls that have the turn.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<KeyPlace, watch::Receiver<Progress>>>);

/// The turn of a call. Dropping it wakes the equal calls, and one of them gets the turn.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    place: KeyPlace,
    progress: watch::Sender<Progress>,
}

/// How the wait for a turn ended.
pub(crate) enum Waited {
    /// This call has the turn.
    Turn(Turn),
    /// The equal call left this record.
    Record(Arc<SeenRecord>),
    /// The call with the turn has a row with another payload, since this instant.
    OtherPayload(Instant),
    /// No time remains.
    TimedOut,
}

impl Turn {
    /// Waits until no equal call has the turn, or one left a record, or has a row with another payload.
    pub(crate) async fn wait(
        turns: &Arc<Turns>,
        place: KeyPlace,
        payload: Option<Fingerprint>,
        until: Instant,
    ) -> Waited {
        loop {
            let mut other = match turns.enter(&place) {
                Err(progress) => {
                    return Waited::Turn(Self {
                        turns: Arc::clone(turns),
                        place,
                        progress,
                    });
                }
                Ok(other) => other,
            };
            let answer = other.wait_for(|progress| progress.answers(payload));
            match timeout_at(until, answer).await {
                Ok(Ok(progress)) => match &*progress {
                    Progress::Left(record) => return Waited::Record(Arc::clone(record)),
                    Progress::Claimed(_, since) => return Waited::OtherPayload(*since),
                    // This answers nobody.
                    Progress::Claiming => {}
                },
                // Its turn has ended without a record.
                Ok(Err(_)) => {}
                Err(_) => return Waited::TimedOut,
            }
        }
    }

    /// Notes that the call has no row: its transaction was not committed.
    pub(crate) fn note_unclaimed(&self) {
        self.progress.send_replace(Progress::Claiming);
    }

    /// Notes that the call has a row with this payload.
    pub(crate) fn note_claimed(&self, payload: Option<Fingerprint>) {
        let claimed = Progress::Claimed(payload, Instant::now());
        self.progress.send_replace(claimed);
    }

    /// Ends the turn. The equal calls get `record`, or one of them gets the turn.
    pub(crate) fn end(self, record: Option<Arc<SeenRecord>>) {
        if let Some(record) = record {
            self.progress.send_replace(Progress::Left(record));
        }
    }
}

impl Progress {
    /// Whether this answers a call with this payload. A call without a payload agrees with every payload.
    fn answers(&self, payload: Option<Fingerprint>) -> bool {
        match self {
            Self::Claiming => false,
            Self::Claimed(held, _) => {
                payload.is_some_and(|payload| held.is_some_and(|held| held != payload))
            }
            Self::Left(_) => true,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.place);
    }
}

impl Turns {
    /// What the call with the turn does. `Err`: no call had the turn, and now the caller has it.
    fn enter(
        &self,
        place: &KeyPlace,
    ) -> Result<watch::Receiver<Progress>, watch::Sender<Progress>> {
        match self.lock().entry(place.clone()) {
            Entry::Occupied(other) => Ok(other.get().clone()),
            Entry::Vacant(free) => {
                let (sender, receiver) = watch::channel(Progress::Claiming);
                free.insert(receiver);
                Err(sender)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyPlace, watch::Receiver<Progress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
