//! What a seed decides before the run: the faults of messages, the keys, the calls and the incidents.

use std::time::Duration;

use super::Mutant;
use super::batching::{BatchPlan, WAITING};
use super::dice::Dice;
use super::net::KEYS;
use super::tokens::TokenPlan;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};

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

#[derive(Debug, Clone, Copy)]
pub(super) struct KeyPlan {
    pub(super) release: Release,
    pub(super) ttl: u64,
    pub(super) lease: u64,
    pub(super) renew: Renew,
    pub(super) replay: bool,
    pub(super) on_lease_lost: OnLeaseLost,
    pub(super) payloads: bool,
    /// Each body gets a number.
    pub(super) fence: bool,
}

#[derive(Debug, Clone)]
pub(super) struct CallPlan {
    pub(super) key: usize,
    pub(super) token: Option<TokenPlan>,
    pub(super) payload: Option<u64>,
    pub(super) starts: u64,
    pub(super) slot: usize,
    /// Made by the builder, else by the code of the attribute.
    pub(super) built: bool,
    pub(super) wait: Option<u64>,
    pub(super) on_cancel: OnCancel,
    /// `on_cancel = "finish"`.
    pub(super) finishes: bool,
    pub(super) on_store_error: OnStoreError,
    /// The pauses of the body between its polls.
    pub(super) steps: Vec<u64>,
    pub(super) ends: BodyEnds,
    /// The caller drops the call instead of polling it for the nth time.
    pub(super) dropped_at_poll: Option<u32>,
    pub(super) dropped_after: Option<u64>,
    /// After the nth poll the caller does not poll for this time.
    pub(super) frozen: Option<(u32, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnds {
    Success,
    Failure,
    Panic,
    /// The outcome is unknown: the code of the attribute holds the key, and the builder sees a failure.
    Hold,
}

/// A fault that affects more than one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incident {
    /// The process dies, and another process replaces it.
    Crash {
        slot: usize,
        down_for: u64,
    },
    Pause {
        slot: usize,
        lasts: u64,
    },
    /// The store is unavailable: requests are lost, refused, or wait.
    Outage {
        lasts: u64,
        how: Outage,
    },
    Full {
        lasts: u64,
    },
    /// The store loses one record.
    Evict {
        key: usize,
    },
    ForgetAll,
    /// The store's clock jumps.
    Step {
        by: i64,
    },
    /// The runtime of the tasks that send batches ends. The calls go on.
    TasksEnd,
    /// An operator frees a key.
    Free {
        key: usize,
        slot: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Loses,
    Refuses,
    Delays,
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
    fn drawn(dice: &mut Dice, undisturbed: bool, deadline: u64, lease: u64) -> Self {
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

impl KeyPlan {
    fn drawn(dice: &mut Dice) -> Self {
        let release = dice.pick(&[
            Release::OnError,
            Release::OnError,
            Release::Always,
            Release::Never,
        ]);
        let lease = dice.pick(&[300, 600, 1500]);
        let ttl = match release {
            Release::OnError => lease + dice.pick(&[0, 500, 4000]),
            _ => lease,
        };
        Self {
            release,
            ttl,
            lease,
            renew: match dice.within(0, 5) {
                0 => Renew::No,
                1 => Renew::Cap(Duration::from_millis(lease + dice.within(0, lease))),
                _ => Renew::Yes,
            },
            replay: release != Release::Always && dice.chance(600),
            on_lease_lost: if dice.chance(100) {
                OnLeaseLost::Continue
            } else {
                OnLeaseLost::Stop
            },
            payloads: dice.chance(300),
            fence: false,
        }
    }

    /// The time from the last renewal to the expiry of the record.
    pub(super) fn expiry(&self) -> u64 {
        self.lease + (self.lease / 10).max(250)
    }
}

impl CallPlan {
    pub(super) fn drawn(
        dice: &mut Dice,
        keys: &[KeyPlan],
        slots: usize,
        lasts: u64,
        impatient: bool,
        unguarded: bool,
    ) -> Self {
        let key = usize::try_from(dice.within(0, keys.len() as u64 - 1)).unwrap_or_default();
        let lease = keys[key].lease;
        let longest = dice.pick(&[0, 5, 50, lease / 2, lease, 2 * lease]);
        let steps = (0..dice.within(0, 5)).map(|_| {
            if dice.chance(300) {
                0
            } else {
                dice.within(0, longest)
            }
        });
        Self {
            key,
            token: None,
            steps: steps.collect(),
            payload: keys[key].payloads.then(|| dice.pick(&[1, 1, 1, 2])),
            starts: dice.within(0, lasts),
            slot: dice.pick(&[0, 1, 2]) % slots,
            built: dice.chance(500),
            wait: dice.chance(500).then(|| dice.pick(&[50, 500, 3000])),
            on_cancel: dice.pick(&[OnCancel::Keep, OnCancel::Keep, OnCancel::Release]),
            finishes: dice.chance(200),
            on_store_error: if unguarded && dice.chance(500) {
                OnStoreError::Run
            } else {
                OnStoreError::Refuse
            },
            ends: match dice.within(0, 9) {
                0 => BodyEnds::Panic,
                1 => BodyEnds::Hold,
                2..4 => BodyEnds::Failure,
                _ => BodyEnds::Success,
            },
            dropped_at_poll: (impatient && dice.chance(300))
                .then(|| u32::try_from(dice.within(1, 8)).unwrap_or_default()),
            dropped_after: (impatient && dice.chance(300)).then(|| dice.within(0, 2 * lease)),
            frozen: dice.chance(60).then(|| {
                let poll = u32::try_from(dice.within(1, 4)).unwrap_or_default();
                (poll, dice.within(1, 4 * lease))
            }),
        }
    }

    /// Whether the end of a call without success gives its token back.
    pub(super) fn gives_back(&self) -> bool {
        self.token.is_some_and(|token| token.gives_back)
    }

    /// Whether the call holds its key after its body has returned.
    pub(super) fn holds(&self) -> bool {
        self.ends == BodyEnds::Hold && !self.built && !self.finishes
    }

    /// The policy for the engine. A mutant gets another policy than the checks assume.
    pub(super) fn policy(&self, key: &KeyPlan, mutant: Option<Mutant>) -> Policy {
        let mut policy = Policy::new(Duration::from_millis(key.ttl))
            .release(key.release)
            .renew(key.renew)
            .on_cancel(self.on_cancel)
            .on_lease_lost(key.on_lease_lost)
            .on_store_error(self.on_store_error);
        if self.gives_back() {
            policy = policy.give_back();
        }
        if key.release == Release::OnError {
            policy = policy.lease(Duration::from_millis(key.lease));
        }
        if let Some(wait) = self.wait {
            policy = policy.wait(Duration::from_millis(wait));
        }
        if key.fence && mutant.is_none_or(Mutant::is_of_fences) {
            policy = policy.fence();
        }
        match mutant {
            Some(Mutant::TtlShorterThanBody) => {
                policy.renew(Renew::No).on_lease_lost(OnLeaseLost::Continue)
            }
            Some(Mutant::BodyNotStopped) => policy.on_lease_lost(OnLeaseLost::Continue),
            Some(Mutant::FailsOpen) => policy.on_store_error(OnStoreError::Run),
            _ => policy,
        }
    }
}

impl Incident {
    fn drawn(
        dice: &mut Dice,
        undisturbed: bool,
        slots: usize,
        keys: usize,
        lasts: u64,
        lease: u64,
    ) -> Vec<(u64, Self)> {
        let mut incidents = Vec::new();
        let end = lasts + lease;
        let slot = |dice: &mut Dice| dice.pick(&[0, 1, 2]) % slots;
        let key = |dice: &mut Dice| dice.pick(&[0, 1]) % keys;
        if dice.chance(250) {
            for _ in 0..dice.within(1, 2) {
                let (slot, down_for) = (slot(dice), dice.within(0, lease));
                incidents.push((dice.within(0, end), Self::Crash { slot, down_for }));
            }
        }
        if dice.chance(100) {
            let (key, slot) = (key(dice), slot(dice));
            incidents.push((dice.within(0, end), Self::Free { key, slot }));
        }
        if undisturbed {
            return incidents;
        }
        if dice.chance(300) {
            let (slot, lasts) = (slot(dice), dice.within(1, 3 * lease));
            incidents.push((dice.within(0, end), Self::Pause { slot, lasts }));
        }
        if dice.chance(300) {
            let lasts = dice.within(1, 3 * lease);
            let how = dice.pick(&[Outage::Loses, Outage::Refuses, Outage::Delays]);
            incidents.push((dice.within(0, end), Self::Outage { lasts, how }));
        }
        if dice.chance(150) {
            let lasts = dice.within(1, 3 * lease);
            incidents.push((dice.within(0, end), Self::Full { lasts }));
        }
        if dice.chance(150) {
            incidents.push(match dice.within(0, 3) {
                0 => (dice.within(0, end), Self::ForgetAll),
                1 => {
                    let by = i64::try_from(dice.within(1, 3 * lease)).unwrap_or_default();
                    let by = if dice.chance(500) { by } else { -by };
                    (dice.within(0, end), Self::Step { by })
                }
                _ => (dice.within(0, end), Self::Evict { key: key(dice) }),
            });
        }
        incidents
    }
}
