//! The unchanging facts of one call, and how its events are emitted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::Span;

use crate::error::{Error, Site};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;
use crate::observe::{self, Event, EventKind};
use crate::policy::Policy;
use crate::policy::times::Times;
use crate::protocol::shared::Shared;
use crate::protocol::token::of_call::CallToken;
use crate::record::call as record;
use crate::record::call::Head;
use crate::record::kept::Kept;
use crate::record::keys_digest::KeysDigest;
use crate::record::owner::Owner;
use crate::result::body_outcome::BodyOutcome;
use crate::result::replay_mode::ReplayMode;
use crate::store::Key;
use crate::world::Moment;

/// The unchanging facts of one call.
#[derive(Clone)]
pub(crate) struct CallContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) site: Site,
    /// The digest of all keys of the call, if it has several.
    pub(crate) keys: Option<KeysDigest>,
    /// Which further key of the call this is; `None` for the key of the call.
    pub(crate) further: Option<u32>,
    /// The digest of the payload, which must be equal among calls with the same keys.
    pub(crate) payload: Option<Fingerprint>,
    pub(crate) policy: Policy,
    pub(crate) times: Times,
    pub(crate) token: Option<Arc<CallToken>>,
    pub(crate) span: Span,
    /// When the call was made, if an observer needs durations.
    pub(crate) made_at: Option<Instant>,
}

/// The name in the keys of endpoints of HTTP that share their keys.
pub(crate) const ALL_OF_HTTP: &str = "http";

impl CallContext {
    /// The context of a call whose key, durations and token are not known yet.
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, endpoint: Endpoint, policy: Policy) -> Self {
        Self {
            shared,
            site: Site::without_key(endpoint),
            keys: None,
            further: None,
            payload: None,
            policy,
            times: Times::default(),
            token: None,
            span: Span::none(),
            made_at: None,
        }
    }

    /// The same call with the further key `key`, which is its further key with this number.
    pub(crate) fn with_further_key(&self, number: u32, key: Fingerprint) -> Self {
        let mut call = self.clone();
        call.site.fingerprint = Some(key);
        call.further = Some(number);
        call.token = None;
        call
    }

    /// Makes the span of the call, whose key is known now, and starts to measure its duration.
    pub(crate) fn begin(&mut self) {
        self.span = observe::span(&self.site);
        self.made_at = self.shared.observers().wants_durations().then(Instant::now);
    }

    /// The key in the store; empty for a call that is not guarded.
    pub(crate) fn key(&self) -> Key {
        self.key_of(&self.site)
    }

    /// The endpoint and the fingerprint of a slot of the key, which is a key of its own in the store. Slot 0 is the key itself.
    pub(crate) fn site_of_slot(&self, slot: u8) -> Site {
        let fingerprint = self.site.fingerprint.map(|key| key.slot(slot));
        Site {
            fingerprint,
            ..self.site.clone()
        }
    }

    /// The key in the store of a call with this fingerprint.
    pub(crate) fn key_of(&self, site: &Site) -> Key {
        let all = Endpoint::named(ALL_OF_HTTP);
        let endpoint = if self.policy.shares_keys {
            &all
        } else {
            &self.site.endpoint
        };
        match &site.fingerprint {
            Some(fingerprint) if self.policy.tx => self.shared.key_in_tx(endpoint, fingerprint),
            Some(fingerprint) => self.shared.key(endpoint, fingerprint),
            None => Key::new(""),
        }
    }

    /// Emits an event other than the end of the call.
    pub(crate) fn emit<'a>(&'a self, kind: EventKind, more: impl FnOnce(Event<'a>) -> Event<'a>) {
        let event = Event::new(&self.site, kind);
        self.shared.observers().emit(&more(event));
    }

    /// Emits how the call ended.
    pub(crate) fn emit_end(&self, kind: EventKind) {
        self.emit_end_event(Event::new(&self.site, kind));
    }

    /// Emits that the call was dropped while it waited for the answer to its claim. A call with several keys emits this itself.
    pub(crate) fn emit_dropped_claim(&self) {
        if !self.policy.has_several_keys() {
            self.emit_end(EventKind::of_a_dropped_call());
        }
    }

    /// Emits that the call ended with this error.
    pub(crate) fn emit_refusal(&self, error: &Error) {
        self.emit_end_event(Event::refused(error));
    }

    /// Emits the outcome of the body.
    pub(crate) fn emit_outcome(&self, success: bool) {
        self.emit_end(match success {
            _ if self.policy.bypassed => EventKind::Bypassed,
            _ if self.policy.disabled => EventKind::Disabled,
            true => EventKind::Executed,
            false => EventKind::Failed,
        });
    }

    fn emit_end_event(&self, event: Event<'_>) {
        self.span.record("outcome", event.kind().as_str());
        let took = self.made_at.map(|made| made.elapsed());
        self.shared.observers().emit(&event.lasted(took));
    }

    /// The outcome of the body, with the result that is stored for duplicates.
    pub(crate) fn end_of<R, K: ReplayMode<R>>(
        &self,
        keep: K,
        outcome: &R,
        success: bool,
    ) -> BodyOutcome {
        if !self.policy.is_guarded() {
            return success.into();
        }
        keep.body_outcome(outcome, success, self.shared.result_options())
    }

    /// The record with which the call claims its key.
    pub(crate) fn claim_record(&self, key: &Key, owner: Owner, now: Moment) -> Bytes {
        if self.policy.is_done_at_once() {
            return self.done_record(key, owner, now, self.policy.ttl, &Kept::Nothing);
        }
        record::running(&self.head(key, owner, now, self.times.expiry))
    }

    /// The record of a call that has ended, and whose outcome is unknown. It expires after `ttl`.
    pub(crate) fn marked_record(
        &self,
        key: &Key,
        owner: Owner,
        now: Moment,
        ttl: Duration,
    ) -> Bytes {
        record::marked(&self.head(key, owner, now, ttl))
    }

    /// The record of the done call. It expires after `ttl`.
    pub(crate) fn done_record(
        &self,
        key: &Key,
        owner: Owner,
        now: Moment,
        ttl: Duration,
        kept: &Kept,
    ) -> Bytes {
        let head = self.head(key, owner, now, ttl);
        self.shared.records().done(key, &head, kept)
    }

    fn head(&self, key: &Key, owner: Owner, now: Moment, ttl: Duration) -> Head<'_> {
        Head {
            key: self.shared.records().tag(key),
            keys: self.keys,
            owner,
            payload: self.payload.as_ref(),
            now,
            ttl,
        }
    }
}

/// Something that has the unchanging facts of one call.
pub(crate) trait OfCall: Send + Sync {
    fn call(&self) -> &CallContext;
}

impl OfCall for CallContext {
    fn call(&self) -> &CallContext {
        self
    }
}
