//! Equal calls of this process whose guard begins the transaction: one of them has the turn, and the others wait without a
//! connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::protocol::seen::SeenRecord;

/// The database of a call, as the address of its pool's options, and the key of its row.
type KeyPlace = (usize, Arc<str>);

/// What the call with the turn leaves: the record that has the key.
type Left = Option<Arc<SeenRecord>>;

/// The calls that have the turn.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<KeyPlace, watch::Receiver<Left>>>);

/// The turn of a call. Dropping it wakes the equal calls, and one of them gets the turn.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    place: KeyPlace,
    left: watch::Sender<Left>,
}

/// How the wait for a turn ended.
pub(crate) enum Waited {
    /// This call has the turn.
    Turn(Turn),
    /// The equal call left this record.
    Record(Arc<SeenRecord>),
    /// No time remains.
    TimedOut,
}

impl Turn {
    /// Waits until no equal call has the turn, or one left a record.
    pub(crate) async fn wait(turns: &Arc<Turns>, place: KeyPlace, until: Instant) -> Waited {
        loop {
            let mut other = match turns.enter(&place) {
                Err(left) => {
                    let turns = Arc::clone(turns);
                    return Waited::Turn(Self { turns, place, left });
                }
                Ok(other) => other,
            };
            let ended = timeout_at(until, other.wait_for(Option::is_some)).await;
            match ended.map(|left| left.ok().and_then(|left| left.clone())) {
                Ok(Some(record)) => return Waited::Record(record),
                Ok(None) => {}
                Err(_) => return Waited::TimedOut,
            }
        }
    }

    /// Ends the turn. The equal calls get `record`, or one of them gets the turn.
    pub(crate) fn end(self, record: Left) {
        self.left.send_replace(record);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.place);
    }
}

impl Turns {
    /// What the call with the turn will leave. `Err`: no call had the turn, and now the caller has it.
    fn enter(&self, place: &KeyPlace) -> Result<watch::Receiver<Left>, watch::Sender<Left>> {
        match self.lock().entry(place.clone()) {
            Entry::Occupied(other) => Ok(other.get().clone()),
            Entry::Vacant(free) => {
                let (sender, receiver) = watch::channel(None);
                free.insert(receiver);
                Err(sender)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyPlace, watch::Receiver<Left>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
