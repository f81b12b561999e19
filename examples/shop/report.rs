//! What became of a run: charges against intents, and one word.

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Outcome};
use super::scenarios::Scenario;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) run: u64,
    pub(crate) mechanism: &'static str,
    /// `None` for the button of the page.
    pub(crate) scenario: Option<Scenario>,
    /// How many phones the customer wants.
    pub(crate) intents: usize,
    /// How many times money was taken.
    pub(crate) charges: usize,
    pub(crate) cents: i64,
    pub(crate) verdict: Verdict,
    pub(crate) took: u64,
    pub(crate) attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Right: each intent was charged once.
    Once,
    /// Right, and every other click got the receipt of the first.
    SameReceipt,
    /// Right, and the other amount was refused as a mistake.
    Noticed,
    /// Charged once, but the click with the other amount got a receipt as if it were right.
    Unnoticed,
    /// Right, but the customer paid and got no receipt.
    NoReceipt,
    /// Nothing was charged, and the customer knows.
    Refused,
    /// Less was charged than the customer wants to buy.
    Blocked,
    /// Too much was charged.
    Charged,
}

impl Verdict {
    pub(crate) fn of(
        scenario: Option<Scenario>,
        intents: usize,
        charges: usize,
        attempts: &[Attempt],
    ) -> Self {
        let any = |outcome| attempts.iter().any(|attempt| attempt.outcome == outcome);
        let has_receipt = |attempt: &Attempt| attempt.receipt.is_some() && !attempt.reply_lost;
        let mismatch = |attempt: &Attempt| {
            let code = attempt.code.as_deref();
            code.is_some_and(|code| code == "payload_mismatch")
        };
        if charges > intents {
            Self::Charged
        } else if charges < intents && scenario == Some(Scenario::StoreDown) {
            Self::Refused
        } else if charges < intents {
            Self::Blocked
        } else if !attempts.iter().any(has_receipt) {
            Self::NoReceipt
        } else if attempts.iter().any(mismatch) {
            Self::Noticed
        } else if any(Outcome::Replayed) && scenario == Some(Scenario::OtherAmount) {
            Self::Unnoticed
        } else if any(Outcome::Replayed) && !any(Outcome::Refused) {
            Self::SameReceipt
        } else {
            Self::Once
        }
    }
}
