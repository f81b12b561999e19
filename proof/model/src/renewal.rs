//! The renewals of a lease.

use crate::call::{Body, Phase};
use crate::config::{Config, Variant};
use crate::state::State;
use crate::store::{Answer, Command, Operation};

impl State {
    /// Sends a renewal (`renewal`).
    pub(crate) fn renew(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        call.renewals -= 1;
        call.renewing = Some(config.lease);
        let owner = call.owner;
        self.send(Command {
            operation: Operation::Renew,
            call: id,
            owner,
            remaining: 0,
        });
    }

    /// Whether the lease is renewed: until the end is recorded.
    pub(crate) fn is_renewed(&self, config: &Config, id: u8) -> bool {
        let call = self.call(id);
        let after = !config.is(Variant::RenewalStopsWithBody) && call.hold.is_none();
        let ended = matches!(call.body, Body::Ok | Body::Err) || call.phase.records_unknown();
        let good = 0 < call.lease && call.lease < config.lease && call.renewals > 0;
        good && match call.phase {
            Phase::Held => true,
            Phase::Settling(_) | Phase::Background(_) => after && ended,
            _ => false,
        }
    }

    pub(crate) fn renewal_answered(&mut self, id: u8, answer: Answer) {
        let call = self.call_mut(id);
        let Some(lease) = call.renewing.take() else {
            return;
        };
        match (call.phase, answer) {
            (_, Answer::Done) if call.hold.is_some() => self.repeat_hold(id),
            (Phase::Ended, _) => call.hold = None,
            (_, Answer::Done) => call.lease = call.lease.max(lease),
            (Phase::Held, _) => self.stop(id),
            _ => {}
        }
    }

    /// Repeats the hold, because the renewal may have been executed after it.
    pub(crate) fn repeat_hold(&mut self, id: u8) {
        let call = self.call_mut(id);
        let remaining = call.hold.unwrap_or_default();
        call.phase = Phase::Background(Operation::Hold);

        self.send_request(id, Operation::Hold, remaining);
    }
}
