//! The configurations in which the token protocol must hold, and those in which each mistake must be found.

use super::config::{Config, Faults, Redeemer, Variant};
use super::rules::Event::{
    self, DiedWithToken, Duplicate, Fenced, LateRedemption, NotWithdrawn, RedeemedAgain,
    RefusedAsUnknown, RefusedAsUsed, Stray,
};
use super::rules::Rule;
use crate::search::Search;

/// A configuration in which the protocol holds.
pub type Space = Search<Config>;

/// All spaces.
#[must_use]
pub fn all() -> Vec<Space> {
    vec![
        space(
            "one form twice",
            |_| {},
            &[
                Duplicate,
                RefusedAsUsed,
                Stray,
                Fenced,
                LateRedemption,
                NotWithdrawn,
            ],
        ),
        space(
            "one form twice, given back",
            |it| it.give_back = true,
            &[Duplicate, RedeemedAgain, Stray, Fenced],
        ),
        space(
            "one form twice, a command comes twice",
            |it| {
                it.give_back = true;
                it.faults = only(|faults| faults.repeats = 1);
            },
            &[Duplicate, RedeemedAgain, LateRedemption],
        ),
        space(
            "one form twice, crash",
            |it| it.faults.crashes = 1,
            &[Duplicate, RefusedAsUsed, DiedWithToken],
        ),
        space(
            "one form twice, cancel: keep",
            |it| it.faults.cancels = 1,
            &[Duplicate, RefusedAsUsed, Stray, Fenced],
        ),
        space(
            "one form twice, cancel: release, given back",
            |it| {
                it.faults = only(|faults| faults.cancels = 1);
                (it.releases, it.give_back) = (true, true);
            },
            &[Duplicate, RedeemedAgain, Fenced],
        ),
        space(
            "one token, two keys",
            two_keys,
            &[RefusedAsUsed, Stray, Fenced, LateRedemption],
        ),
        space(
            "one token, two keys, given back",
            |it| {
                two_keys(it);
                it.give_back = true;
            },
            &[RefusedAsUsed, RedeemedAgain, Stray, Fenced],
        ),
        space(
            "one token, two keys, crash",
            |it| {
                two_keys(it);
                it.faults = only(|faults| faults.crashes = 1);
                it.give_back = true;
            },
            &[RefusedAsUsed, DiedWithToken, RedeemedAgain],
        ),
        space(
            "without calls",
            |it| {
                without_calls(it);
                it.give_back = true;
            },
            &[RefusedAsUsed, RedeemedAgain, Stray, Fenced, LateRedemption],
        ),
        space(
            "without calls, dropped",
            |it| {
                without_calls(it);
                it.faults = only(|faults| (faults.cancels, faults.repeats) = (1, 1));
            },
            &[RefusedAsUsed, Stray, Fenced],
        ),
        space(
            "a call, and a redemption without a call",
            |it| {
                it.redeemers[1].key = None;
                (it.give_back, it.faults.cancels) = (true, 1);
            },
            &[RefusedAsUsed, RedeemedAgain, Stray, Fenced],
        ),
        space(
            "the token expires",
            |it| {
                it.token_ttl = 1;
                it.give_back = true;
            },
            &[RefusedAsUnknown, Stray, LateRedemption],
        ),
    ]
}

/// A larger space, for a release build.
#[must_use]
pub fn long() -> Vec<Space> {
    vec![space(
        "three redeemers without calls",
        |it| {
            it.redeemers.push(Redeemer {
                process: 2,
                key: None,
            });
            without_calls(it);
            it.faults = only(|_| {});
            it.give_back = true;
        },
        &[RefusedAsUsed, RedeemedAgain, Stray, Fenced],
    )]
}

/// Each mistake with the rule that it breaks.
#[must_use]
pub fn wrong() -> Vec<(Config, Rule)> {
    let on = |name, variant, rule, change: &dyn Fn(&mut Config)| {
        let config = Config::new(name).with(|it| it.variant = variant);
        (config.with(|it| change(it)), rule)
    };
    let plain = |_: &mut Config| {};
    vec![
        on(
            "a redemption replaces any line",
            Variant::RedeemsAnyLine,
            Rule::Once,
            &two_keys,
        ),
        on(
            "a return replaces any line",
            Variant::ReturnsAnyLine,
            Rule::StaysUsed,
            &two_keys,
        ),
        on(
            "a redemption is taken back once",
            Variant::TakesBackOnce,
            Rule::TakenBack,
            &plain,
        ),
        on(
            "a returned token has the line of a new token",
            Variant::ReturnsAsFresh,
            Rule::TakenBack,
            &plain,
        ),
        on(
            "a redemption is sent again with another owner",
            Variant::OwnerPerAttempt,
            Rule::TrueRefusal,
            &plain,
        ),
        on(
            "the key is free before the token is back",
            Variant::FreesKeyFirst,
            Rule::BackBeforeFree,
            &plain,
        ),
        on(
            "the token is given back after an unknown outcome",
            Variant::ReturnsAfterUnknown,
            Rule::StaysUsed,
            &plain,
        ),
        on(
            "the body runs if the store is silent",
            Variant::RunsWithoutAnswer,
            Rule::BodyHasToken,
            &plain,
        ),
        on(
            "the lease is not checked after the redemption",
            Variant::LateAnswerAccepted,
            Rule::InLease,
            &plain,
        ),
        on(
            "a return stores an expired token again",
            Variant::ReturnsExpired,
            Rule::Expires,
            &|it| {
                two_keys(it);
                (it.token_ttl, it.give_back) = (1, true);
            },
        ),
        on(
            "a call that gives up keeps the token",
            Variant::NeverTakesBack,
            Rule::BackBeforeFree,
            &plain,
        ),
    ]
}

fn two_keys(it: &mut Config) {
    it.redeemers[1].key = Some(1);
}

fn without_calls(it: &mut Config) {
    for redeemer in &mut it.redeemers {
        redeemer.key = None;
    }
}

fn space(name: &'static str, change: impl FnOnce(&mut Config), events: &[Event]) -> Space {
    Space {
        config: Config::new(name).with(change),
        rules: Rule::ALL.to_vec(),
        events: events.to_vec(),
    }
}

/// These faults, without repeated requests.
fn only(these: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    these(&mut faults);
    faults
}
