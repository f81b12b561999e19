//! One-time tokens in a run: which calls redeem them, the redemptions without a call, and the names of their keys.

use std::sync::LazyLock;

use super::call_plan::CallPlan;
use super::dice::Dice;
use super::history::CallId;
use super::incidents::Incident;
use super::knobs::Plan;
use super::net::KEYS;
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::policy::Release;
use crate::protocol::token::redemption::Redemption;
use crate::protocol::token::{binding, locate};
use crate::store::memory::MemoryStore;

/// What a call does with a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenPlan {
    /// The index of the token.
    pub(super) token: usize,
    /// The option `give_back`.
    pub(super) gives_back: bool,
}

impl TokenPlan {
    pub(super) fn text(self) -> String {
        text_of(self.token)
    }

    /// The number of the token's key.
    pub(super) fn key(self) -> usize {
        KEYS + self.token
    }
}

impl Plan {
    /// The plan of a call, or of a redemption without a call.
    pub(super) fn call(&self, call: CallId) -> &CallPlan {
        match call.0.checked_sub(self.calls.len()) {
            None => &self.calls[call.0],
            Some(redemption) => &self.redemptions[redemption],
        }
    }

    /// Whether the calls of a key have tokens.
    pub(super) fn has_tokens(&self, key: usize) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| call.key == key && call.token.is_some())
    }

    /// Gives tokens to the calls of some keys, and adds redemptions without a call.
    pub(super) fn add_tokens(
        &mut self,
        dice: &mut Dice,
        lasts: u64,
        impatient: bool,
        undisturbed: bool,
    ) {
        let count = dice.pick(&[1, 1, TOKENS]);
        self.tokens = (0..count)
            .map(|_| dice.pick(&[400, 2000, 20_000]))
            .collect();
        let token = |dice: &mut Dice| TokenPlan {
            token: dice.pick(&[0, 1]) % count,
            gives_back: dice.chance(600),
        };
        for (key, plan) in self.keys.iter().enumerate() {
            if !dice.chance(700) {
                continue;
            }
            for call in self.calls.iter_mut().filter(|call| call.key == key) {
                let mut token = token(dice);
                token.gives_back &= plan.release != Release::Never;
                call.token = Some(token);
            }
        }
        for _ in 0..dice.within(0, 3) {
            let slots = self.ahead.len();
            let mut redemption = CallPlan::drawn(dice, &self.keys, slots, lasts, impatient, false);
            let token = token(dice);
            redemption.key = token.key();
            redemption.token = Some(token);
            self.redemptions.push(redemption);
        }
        if !undisturbed && dice.chance(100) {
            let key = token(dice).key();
            self.incidents
                .push((dice.within(0, lasts), Incident::Evict { key }));
        }
    }
}

/// The operation of all tokens.
pub(super) const OPERATION: &str = "sim.submit";
/// The subject of all tokens.
pub(super) const SUBJECT: u64 = 42;
/// The largest number of tokens in a run.
pub(super) const TOKENS: usize = 2;

/// The part of the key of a call that its token adds.
pub(super) fn bound_to_subject() -> &'static str {
    static BOUND: LazyLock<String> = LazyLock::new(|| {
        let handle = Idempotency::new(MemoryStore::new());
        let operation = Endpoint::named(OPERATION);
        let bound = binding(handle.shared(), &operation, None, |hasher| {
            hasher.part(&SUBJECT)
        });
        bound.expect("a number can be encoded").to_string()
    });
    &BOUND
}

/// The name of a token's key.
pub(super) fn key_of(token: usize) -> String {
    let handle = Idempotency::new(MemoryStore::new());
    let operation = Endpoint::named(OPERATION);
    let text = text_of(token);
    let redemption = Redemption::new(handle.shared(), operation.clone(), &text, |hasher| {
        hasher.part(&SUBJECT)
    });
    let redemption = redemption.expect("the token is well-formed");
    locate(handle.shared(), operation, *redemption.bound()).1
}

fn text_of(token: usize) -> String {
    format!("{token:064x}")
}
