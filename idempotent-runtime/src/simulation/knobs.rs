//! What a seed decides before the run: the faults of messages, the keys, the calls and the incidents.

use super::batching::{BatchPlan, WAITING};
use super::call_plan::{CallPlan, KeyPlan};
use super::dice::Dice;
use super::incidents::Incident;
use super::net::KEYS;
use crate::policy::{OnLeaseLost, Renew, Settle};

/// All times are in milliseconds.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) message_faults: MessageFaults,
    pub(super) deadline: u64,
    pub(super) keys: Vec<KeyPlan>,
    pub(super) calls: Vec<CallPlan>,
    /// Redemptions of tokens without a call. Their numbers follow the numbers of the calls.
    pub(super) redemptions: Vec<CallPlan>,
    /// How long each token is valid.
    pub(super) tokens: Vec<u64>,
    pub(super) incidents: Vec<(u64, Incident)>,
    /// How many milliseconds the clock of each process is ahead.
    pub(super) ahead: Vec<u64>,
    /// If the operations go in batches.
    pub(super) batches: Option<BatchPlan>,
}

/// The faults of single messages. Chances are in a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageFaults {
    /// Requests and replies take up to this long.
    pub(super) slowest: u64,
    /// The chance that a message takes much longer.
    pub(super) straggles: u64,
    pub(super) longest: u64,
    pub(super) loses_requests: u64,
    pub(super) loses_replies: u64,
    pub(super) repeats: u64,
    pub(super) refuses: u64,
    /// The chance that a completion is refused, as by a proxy that refuses large messages.
    pub(super) refuses_completions: u64,
    pub(super) is_full: u64,
    /// The chance that the answer is an immediate error, whatever the request did.
    pub(super) breaks: u64,
    /// The chance that a call is polled later than it was woken.
    pub(super) delays_polls: u64,
    /// The chance that a hint is lost, if the store gives hints.
    pub(super) hints: Option<u64>,
}

impl Plan {
    pub(super) fn from_seed(seed: u64) -> Self {
        let dice = &mut Dice::new(seed, 1);
        let deadline = dice.pick(&[100, 250, 500, 1000]);
        let slots = dice.pick(&[1, 2, 2, 3]);
        let keys: Vec<_> = (0..dice.pick(&[1, 1, 2]))
            .map(|_| KeyPlan::drawn(dice))
            .collect();
        let longest_lease = keys.iter().map(|key| key.lease).max().unwrap_or_default();
        let lasts = dice.pick(&[20, 1000, 3000, 6000]);
        let undisturbed = dice.chance(300);
        let message_faults = MessageFaults::drawn(dice, undisturbed, deadline, longest_lease);
        let impatient = dice.chance(300);
        let unguarded = !undisturbed && dice.chance(100);
        let calls = (0..dice.within(3, 10))
            .map(|_| CallPlan::drawn(dice, &keys, slots, lasts, impatient, unguarded))
            .collect();
        let incidents = Incident::drawn(dice, undisturbed, slots, keys.len(), lasts, longest_lease);
        let mut plan = Self {
            message_faults,
            deadline,
            calls,
            incidents,
            // A process that replaces a crashed process has the clock of the same machine.
            ahead: (0..slots).map(|_| dice.pick(&[0, 0, 7, 60_000])).collect(),
            keys,
            batches: None,
            redemptions: Vec::new(),
            tokens: Vec::new(),
        };
        // Other dice, so that a run without batches stays as it was before there were batches.
        let dice = &mut Dice::new(seed, 4);
        if dice.chance(400) {
            plan.batches = Some(BatchPlan::drawn(dice, undisturbed));
            plan.add_bursts(dice, lasts, impatient);
            let dice = &mut Dice::new(seed, 5);
            plan.end_tasks(dice, lasts, undisturbed);
        }
        // The same for tokens.
        let dice = &mut Dice::new(seed, 6);
        if dice.chance(350) {
            plan.add_tokens(dice, lasts, impatient, undisturbed);
        }
        let dice = &mut Dice::new(seed, 7);
        if plan.batches.is_none() && plan.tokens.is_empty() && dice.chance(600) {
            plan.add_fences(dice);
        }
        let dice = &mut Dice::new(seed, 8);
        if dice.chance(400) {
            for call in plan.calls.iter_mut().filter(|_| dice.chance(700)) {
                call.settle = Settle::Background;
            }
        }
        let dice = &mut Dice::new(seed, 12);
        if slots > 1 && !undisturbed && plan.tokens.is_empty() && dice.chance(100) {
            plan.add_rival(dice);
        }
        plan
    }

    fn add_fences(&mut self, dice: &mut Dice) {
        for key in &mut self.keys {
            key.fence = true;
            // A body that continues after its lease writes late.
            if dice.chance(300) {
                (key.on_lease_lost, key.renew) = (OnLeaseLost::Continue, Renew::No);
            }
        }
        // Only the code of the attribute reads the number here.
        for call in &mut self.calls {
            call.built = false;
        }
    }

    fn end_tasks(&mut self, dice: &mut Dice, lasts: u64, undisturbed: bool) {
        if let Some(batches) = &mut self.batches {
            batches.mixes_renewals = dice.chance(500);
        }
        if undisturbed || !dice.chance(400) {
            return;
        }
        for _ in 0..dice.within(1, 4) {
            let begins = self
                .calls
                .iter()
                .map(|call| call.starts)
                .collect::<Vec<_>>();
            // Most operations are in a queue or in flight soon after a call has begun.
            let at = dice.pick(&begins) + dice.pick(&[0, 0, 1, 10]) * dice.within(0, 10);
            self.incidents.push((at.min(lasts), Incident::TasksEnd));
        }
    }

    /// Adds calls that begin at the same time, so that batches form.
    fn add_bursts(&mut self, dice: &mut Dice, lasts: u64, impatient: bool) {
        while self.keys.len() < KEYS {
            self.keys.push(KeyPlan::drawn(dice));
        }
        for _ in 0..dice.within(1, 3) {
            let begins = dice.within(0, lasts);
            for _ in 0..dice.within(2, 6) {
                let slots = self.ahead.len();
                let call = CallPlan::drawn(dice, &self.keys, slots, lasts, impatient, false);
                self.calls.push(CallPlan {
                    starts: begins,
                    ..call
                });
            }
        }
        // An operation may wait for the trip of another, and the deadline is still long enough for both.
        if self.undisturbed() {
            self.message_faults.slowest = self.message_faults.slowest.min(1);
        }
    }

    /// Whether nothing delays or loses messages, so that no answer may blame the store.
    pub(super) fn undisturbed(&self) -> bool {
        let message_faults = &self.message_faults;
        let is_obstacle = |incident: &(u64, Incident)| {
            matches!(
                incident.1,
                Incident::Outage { .. }
                    | Incident::Full { .. }
                    | Incident::Pause { .. }
                    | Incident::TasksEnd
            )
        };
        message_faults.straggles
            + message_faults.loses_requests
            + message_faults.loses_replies
            + message_faults.refuses
            + message_faults.breaks
            + message_faults.refuses_completions
            + message_faults.is_full
            + self.batches.map_or(0, |batches| batches.cuts)
            == 0
            && 4 * message_faults.slowest < self.deadline / 4
            && self
                .batches
                .is_none_or(|plan| plan.limits.waiting >= WAITING)
            && !self.incidents.iter().any(is_obstacle)
    }
}

impl MessageFaults {
    pub(super) fn drawn(dice: &mut Dice, undisturbed: bool, deadline: u64, lease: u64) -> Self {
        let hints = dice.chance(400).then(|| dice.pick(&[0, 300]));
        if undisturbed {
            return Self {
                slowest: dice.pick(&[0, 0, 1, 5]),
                repeats: dice.pick(&[0, 50]),
                delays_polls: dice.pick(&[0, 100]),
                hints,
                ..Self::default()
            };
        }
        let mut rate = |rates: &[u64]| dice.pick(rates);
        Self {
            repeats: rate(&[0, 0, 50, 200]),
            loses_requests: rate(&[0, 0, 30, 150]),
            loses_replies: rate(&[0, 0, 30, 150]),
            refuses: rate(&[0, 0, 30, 150]),
            refuses_completions: rate(&[0, 0, 0, 900]),
            is_full: rate(&[0, 0, 0, 100]),
            breaks: rate(&[0, 0, 30, 150]),
            straggles: rate(&[0, 50, 200]),
            delays_polls: rate(&[0, 0, 100]),
            slowest: rate(&[0, 3, deadline / 8, deadline]),
            longest: rate(&[deadline, lease, 2 * lease]),
            hints,
        }
    }
}
