//! What a seed decides about the keys and the calls.

use std::time::Duration;

use super::Mutant;
use super::dice::Dice;
use super::tokens::TokenPlan;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew, Settle};

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
    /// How many bodies run at once.
    pub(super) permits: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct CallPlan {
    pub(super) key: usize,
    /// A further key.
    pub(super) also: Option<usize>,
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
    pub(super) settle: Settle,
    /// The pauses of the body between its polls.
    pub(super) steps: Vec<u64>,
    pub(super) ends: BodyEnds,
    /// Its body has three steps whose results are kept.
    pub(super) has_steps: bool,
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
    /// The outcome is unknown: the call holds its key, as the layer for HTTP does, or has the option `hold_err`.
    Hold,
}

impl KeyPlan {
    pub(super) fn drawn(dice: &mut Dice) -> Self {
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
            permits: None,
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
            also: None,
            has_steps: false,
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
            settle: Settle::Await,
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

    /// Whether the error of the body says that its outcome is unknown, and the call has the option `hold_err`.
    pub(super) fn holds_err(&self) -> bool {
        self.ends == BodyEnds::Hold && !self.holds()
    }

    /// The policy for the engine. A mutant gets another policy than the checks assume.
    pub(super) fn policy(&self, key: &KeyPlan, mutant: Option<Mutant>) -> Policy {
        let mut policy = Policy::new(Duration::from_millis(key.ttl))
            .release(key.release)
            .renew(key.renew)
            .on_cancel(self.on_cancel)
            .on_lease_lost(key.on_lease_lost)
            .on_store_error(self.on_store_error)
            .settle(self.settle);
        if self.gives_back() {
            policy = policy.give_back();
        }
        if key.release == Release::OnError {
            policy = policy.lease(Duration::from_millis(key.lease));
        }
        if let Some(permits) = key.permits {
            policy = policy.permits(permits);
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
