//! The state that all calls of a handle share.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Keying};
use crate::key::kind;
use crate::key::kind::RecordKind;
use crate::observe::Observers;
use crate::protocol::in_flight::InFlightTable;
use crate::protocol::line::Lines;
use crate::protocol::stuck_keys::StuckKeys;
use crate::protocol::tracker::Tracker;
#[cfg(feature = "sql")]
use crate::protocol::turns::Turns;
use crate::result::options::ResultOptions;
use crate::result::records::RecordFormat;
use crate::settings::known::KnownEndpoints;
use crate::store::{Key, Store};
use crate::world::Moment;

/// The store of a handle, its options, its calls in flight and its background work.
pub struct Shared {
    options: Options,
    /// The records never leave the memory of this process.
    is_local: bool,
    in_flight: InFlightTable,
    lines: Arc<Lines>,
    stuck_keys: StuckKeys,
    tracker: Arc<Tracker>,
    cleanup_turns: Semaphore,
    #[cfg(feature = "sql")]
    turns: Arc<Turns>,
}

/// How many clean-ups of a handle ask the store at a time: an eighth of a full batch.
const CLEANUP_TURNS: usize = 64;

/// The options of a handle.
pub(crate) struct Options {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) prefix: String,
    pub(crate) keying: Keying,
    /// Hashes one-time tokens: by SHA-256, whatever the digest of the handle.
    pub(crate) token_keying: Keying,
    pub(crate) deadline: Duration,
    pub(crate) retry_hint: RangeInclusive<Duration>,
    pub(crate) records: RecordFormat,
    pub(crate) observers: Observers,
    pub(crate) cleanup_limit: usize,
    pub(crate) logs_holder: bool,
    pub(crate) known: Arc<KnownEndpoints>,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            is_local: options.store.local().is_some(),
            options,
            in_flight: InFlightTable::default(),
            lines: Arc::default(),
            stuck_keys: StuckKeys::default(),
            tracker: Arc::default(),
            cleanup_turns: Semaphore::const_new(CLEANUP_TURNS),
            #[cfg(feature = "sql")]
            turns: Arc::default(),
        }
    }

    /// The prefix of every key.
    pub(crate) fn prefix(&self) -> &str {
        &self.options.prefix
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.options.store
    }

    /// The time and the process of a record that is written now.
    pub(crate) fn moment(&self) -> Moment {
        if self.is_local {
            Moment::now_in_memory()
        } else {
            Moment::now()
        }
    }

    pub(crate) fn keying(&self) -> &Keying {
        &self.options.keying
    }

    pub(crate) fn token_keying(&self) -> &Keying {
        &self.options.token_keying
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.options.deadline
    }

    /// When a duplicate should be sent again, if the other call has run for `age`.
    pub(crate) fn retry_hint(&self, age: Duration) -> Duration {
        let hints = &self.options.retry_hint;
        age.clamp(*hints.start(), *hints.end())
    }

    /// How results are stored.
    pub fn result_options(&self) -> ResultOptions {
        self.options.records.options
    }

    pub(crate) fn records(&self) -> &RecordFormat {
        &self.options.records
    }

    pub(crate) fn in_flight_table(&self) -> &InFlightTable {
        &self.in_flight
    }

    /// The calls that wait for permits.
    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub(crate) fn stuck_keys(&self) -> &StuckKeys {
        &self.stuck_keys
    }

    /// Whether the event of a stuck key names the process of its holder.
    pub(crate) fn logs_holder(&self) -> bool {
        self.options.logs_holder
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.options.observers
    }

    /// Counts the background work of the handle.
    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }

    /// Whether as many clean-ups wait for the store as the handle allows.
    pub(crate) fn has_too_many_cleanups(&self) -> bool {
        self.tracker.count() >= self.options.cleanup_limit
    }

    /// The calls whose guard begins their transaction.
    #[cfg(feature = "sql")]
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// The turn of a clean-up, which ends when this is dropped.
    pub(crate) async fn cleanup_turn(&self) -> Option<SemaphorePermit<'_>> {
        // Nothing closes the semaphore.
        self.cleanup_turns.acquire().await.ok()
    }

    pub(crate) fn known_endpoints(&self) -> &Arc<KnownEndpoints> {
        &self.options.known
    }

    /// The key of a call.
    pub(crate) fn key(&self, endpoint: &Endpoint, fingerprint: &Fingerprint) -> Key {
        let prefix = &self.options.prefix;
        let key = Key::written(|key| kind::push_key_of_call(key, prefix, endpoint, fingerprint));
        if self.options.records.name_keys {
            key.with_tag()
        } else {
            key
        }
    }

    /// The key of a call whose row is in its caller's transaction.
    pub(crate) fn key_in_tx(&self, endpoint: &Endpoint, fingerprint: &Fingerprint) -> Key {
        Key::new(&kind::key_in_tx(
            &self.options.prefix,
            endpoint,
            fingerprint,
        ))
    }

    /// The key of the last number of the claims of `key`: `idem:#fence:{idem:orders.pay:9e10…}`. The braces keep it on the node of
    /// `key` in a cluster. No key of a call has braces.
    pub(crate) fn fence_key(&self, key: &Key) -> String {
        self.key_of(RecordKind::Fence, format_args!("{{{key}}}"))
    }

    /// The key of the steps of the call with `key`: `idem:#steps:{idem:orders.pay:9e10…}`, with braces as in [`fence_key`](Self::fence_key).
    pub(crate) fn steps_key(&self, key: &Key) -> String {
        self.key_of(RecordKind::Steps, format_args!("{{{key}}}"))
    }

    /// The key of another kind of record, with its name within its kind.
    pub(crate) fn key_of(&self, kind: RecordKind, name: impl fmt::Display) -> String {
        kind.key(&self.options.prefix, name)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        f.debug_struct("Idempotency")
            .field("store", &options.store)
            .field("prefix", &options.prefix)
            .field("keying", &options.keying)
            .field("deadline", &options.deadline)
            .field("retry_hint", &options.retry_hint)
            .field("results", &options.records.options)
            .field("sealing", &options.records.sealing)
            .finish_non_exhaustive()
    }
}
