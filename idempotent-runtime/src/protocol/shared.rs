//! What all calls of a handle share.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Keying};
use crate::key::kind;
use crate::key::kind::Kind;
use crate::observe::Observers;
use crate::protocol::in_flight::Flights;
use crate::protocol::tracker::Unattended;
use crate::result::options::ResultOptions;
use crate::settings::known::KnownEndpoints;
use crate::store::Store;

/// The store of a handle, the settings of the handle, and the calls that run on the handle.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) prefix: String,
    pub(crate) keying: Keying,
    pub(crate) token_keying: Keying,
    pub(crate) deadline: Duration,
    pub(crate) retry_hint: RangeInclusive<Duration>,
    pub(crate) result_options: ResultOptions,
    pub(crate) flights: Flights,
    pub(crate) observers: Observers,
    pub(crate) unattended: Arc<Unattended>,
    pub(crate) cleanup_limit: usize,
    pub(crate) known: Arc<KnownEndpoints>,
}

impl Shared {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn keying(&self) -> &Keying {
        &self.keying
    }

    /// What one-time tokens are hashed with: SHA-256, whatever the digest of the handle.
    pub(crate) fn token_keying(&self) -> &Keying {
        &self.token_keying
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// When to look again for the end of a call that has run for this long.
    pub(crate) fn retry_hint(&self, age: Duration) -> Duration {
        age.clamp(*self.retry_hint.start(), *self.retry_hint.end())
    }

    pub(crate) fn result_options(&self) -> ResultOptions {
        self.result_options
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.flights
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(crate) fn unattended(&self) -> &Arc<Unattended> {
        &self.unattended
    }

    /// Whether as many clean-ups wait for the store as the handle allows.
    pub(crate) fn is_crowded(&self) -> bool {
        self.unattended.count() >= self.cleanup_limit
    }

    pub(crate) fn known(&self) -> &Arc<KnownEndpoints> {
        &self.known
    }

    /// The key of a call.
    pub(crate) fn key(&self, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
        kind::key_of_call(&self.prefix, endpoint, fingerprint)
    }

    /// The key of a call that its caller's transaction holds.
    pub(crate) fn key_in_tx(&self, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
        kind::key_in_tx(&self.prefix, endpoint, fingerprint)
    }

    /// The key of something else, with what names it among its kind.
    pub(crate) fn key_of(&self, kind: Kind, name: impl fmt::Display) -> String {
        kind.key(&self.prefix, name)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("store", &self.store)
            .field("prefix", &self.prefix)
            .field("keying", &self.keying)
            .field("deadline", &self.deadline)
            .field("retry_hint", &self.retry_hint)
            .field("result_options", &self.result_options)
            .finish_non_exhaustive()
    }
}
