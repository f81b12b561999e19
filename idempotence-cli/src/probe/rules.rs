//! The rules, in the order in which they are reported.

mod failures;
mod hang_ups;
pub(super) mod keys;
mod mismatches;
mod owners;
mod replays;
mod secrets;
mod storms;

use super::convention::Convention;
use super::rule::Rule;

/// The rules of a convention.
pub(crate) fn rules_of(convention: Convention) -> Vec<&'static Rule> {
    let all = [
        keys::RULES,
        replays::RULES,
        secrets::RULES,
        storms::RULES,
        mismatches::RULES,
        owners::RULES,
        hang_ups::RULES,
        failures::RULES,
    ];
    let all = all.into_iter().flatten();
    all.filter(|rule| rule.basis(convention).is_some())
        .collect()
}
