//! The configurations in which the protocol must hold.

use crate::config::{Caller, Config, Faults, OnCancel, Release};
use crate::rules::Event::{
    self, Duplicate, Follows, HeldKey, LateCompletion, LeaseLost, OwnStrayClaim, RunsAfterHold,
    SecondEffect, StrayClaim, StrayRenewal, TakenOver,
};
use crate::rules::Rule;
use crate::search::Search;

/// A configuration in which the protocol holds.
pub type Space = Search<Config>;

/// Commands and replies are lost, late or duplicated; renewals are late or on time.
#[must_use]
pub fn network() -> Vec<Space> {
    vec![
        space("replies are lost", |_| {}).reaches(&[
            Duplicate,
            LeaseLost,
            StrayClaim,
            LateCompletion,
            TakenOver,
            SecondEffect,
        ]),
        space("a command comes twice", |it| {
            it.faults.resends = 0;
            it.faults.repeats = 1;
        })
        .reaches(&[Duplicate, StrayClaim]),
        space("renewals", |it| {
            it.faults.resends = 0;
            it.renewals = 1;
        })
        .reaches(&[Duplicate, LeaseLost, StrayRenewal, TakenOver]),
        space("renewals on time", |it| {
            it.renewals = 1;
            it.punctual = true;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayRenewal]),
        space("the store's clock is ahead", |it| {
            it.faults = only(|faults| faults.drifts = 1);
            it.renewals = 1;
            it.errors = false;
        })
        // In the store the lease may expire a tick before the holder notices it.
        .without(Rule::EffectOnceWhileHeld)
        .reaches(&[TakenOver]),
        space("payloads", |it| it.payloads = true).reaches(&[Duplicate]),
    ]
}

/// Processes die, and futures are dropped.
#[must_use]
pub fn ends() -> Vec<Space> {
    vec![
        space("crash", |it| {
            it.faults = only(|faults| faults.crashes = 1);
            it.renewals = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim, SecondEffect]),
        space("crash, effect with a row", |it| {
            it.faults.crashes = 1;
            it.row = true;
        })
        .and(Rule::EffectOnce)
        .reaches(&[SecondEffect]),
        space("cancel: keep", |it| {
            it.faults.cancels = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim]),
        space("cancel: release", |it| {
            it.faults.cancels = 1;
            it.errors = false;
            it.on_cancel = OnCancel::Release;
        })
        .reaches(&[Duplicate, StrayClaim]),
        space("cancel: finish", |it| {
            it.callers = vec![caller(0, 2)];
            it.faults = only(|faults| faults.cancels = 1);
            it.on_cancel = OnCancel::Finish;
        })
        .reaches(&[Follows, LeaseLost]),
        space("settle in background", |it| it.background = true).reaches(&[
            Duplicate,
            LeaseLost,
            LateCompletion,
            TakenOver,
        ]),
        // A caller may have its result, and the record of the call is lost with its process.
        space("settle in background, crash", |it| {
            it.faults = only(|faults| faults.crashes = 1);
            it.background = true;
            it.renewals = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim, SecondEffect]),
        space(
            "settle in background, release = true, the caller calls again",
            |it| {
                it.callers = vec![caller(0, 2)];
                it.faults.crashes = 1;
                it.background = true;
                it.release = Release::Always;
                it.lease = it.ttl;
            },
        )
        .reaches(&[Follows, SecondEffect]),
        space("cancel: keep, effect elsewhere", |it| {
            it.faults = only(|faults| faults.cancels = 1);
            it.wire = true;
        })
        .and(Rule::EffectAlone)
        .reaches(&[Duplicate, SecondEffect]),
    ]
}

/// Bodies that do not know their outcome, and hold their keys.
#[must_use]
pub fn holds() -> Vec<Space> {
    vec![
        space("hold", |it| it.holds = true).reaches(&[HeldKey, RunsAfterHold, LeaseLost]),
        space("hold, renewed", |it| {
            it.faults = only(|_| {});
            it.holds = true;
            it.renewals = 1;
        })
        .reaches(&[HeldKey, RunsAfterHold, StrayRenewal]),
        space("hold, crash, effect with a row", |it| {
            it.faults = only(|faults| faults.crashes = 1);
            it.holds = true;
            it.row = true;
        })
        .and(Rule::EffectOnce)
        .reaches(&[HeldKey, RunsAfterHold]),
        space("hold, effect elsewhere", |it| {
            it.faults = only(|_| {});
            it.holds = true;
            it.wire = true;
        })
        .and(Rule::EffectAlone)
        .reaches(&[HeldKey, RunsAfterHold]),
        space("unknown outcome", |it| it.unknown = true).reaches(&[HeldKey, LeaseLost]),
        space("unknown outcome, renewed, one process", |it| {
            it.callers = vec![caller(0, 1), caller(0, 1)];
            it.faults = only(|_| {});
            it.unknown = true;
            it.renewals = 1;
        })
        .reaches(&[HeldKey, RunsAfterHold, Follows]),
        space("unknown outcome, effect elsewhere", |it| {
            it.faults = only(|_| {});
            it.unknown = true;
            it.wire = true;
        })
        .and(Rule::EffectAlone)
        .reaches(&[HeldKey, RunsAfterHold]),
        space("hold, one process, wait", |it| {
            it.callers = vec![caller(0, 1), caller(0, 1)];
            it.faults = only(|_| {});
            it.holds = true;
            it.waits = 1;
        })
        .reaches(&[HeldKey, RunsAfterHold, Follows]),
        space("hold, release = false", |it| {
            it.faults = only(|_| {});
            it.holds = true;
            it.release = Release::Never;
            it.lease = it.ttl;
            it.renewals = 1;
            it.errors = false;
        })
        .reaches(&[HeldKey, RunsAfterHold, StrayRenewal]),
    ]
}

/// The other values of `release`.
#[must_use]
pub fn releases() -> Vec<Space> {
    vec![
        space("release = true", |it| {
            it.release = Release::Always;
            it.lease = it.ttl;
        })
        .reaches(&[Duplicate, StrayClaim, LeaseLost, SecondEffect]),
        space("release = false, crash", |it| {
            it.faults = only(|faults| faults.crashes = 1);
            it.release = Release::Never;
            it.lease = it.ttl;
            it.renewals = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayRenewal, LeaseLost]),
    ]
}

/// The store loses or refuses records.
#[must_use]
pub fn stores() -> Vec<Space> {
    vec![
        space("an operator frees the key", |it| {
            it.faults = only(|faults| faults.forgets = 1);
            it.renewals = 1;
            it.errors = false;
        })
        .reaches(&[TakenOver, LateCompletion]),
        space("the store loses the record", |it| {
            it.faults = only(|faults| faults.losses = 1);
        })
        .reaches(&[TakenOver, LateCompletion]),
        space("failover, awaited", |it| {
            it.faults = only(|faults| faults.failovers = 1);
            it.replicated = true;
        })
        .reaches(&[Duplicate, LeaseLost]),
        space("a full store", |it| {
            it.faults = only(|_| {});
            it.full = true;
        })
        .reaches(&[Duplicate]),
    ]
}

/// Duplicates in one process, and waiting duplicates.
#[must_use]
pub fn duplicates() -> Vec<Space> {
    let together = |it: &mut Config| it.callers = vec![caller(0, 1), caller(0, 1)];
    vec![
        space("one process", together).reaches(&[Follows, Duplicate, LeaseLost]),
        space("one process, a future frozen", |it| {
            together(it);
            it.faults = only(|faults| faults.freezes = 1);
        })
        .reaches(&[Follows, TakenOver]),
        space("one process, cancel: release", |it| {
            together(it);
            it.faults = only(|faults| faults.cancels = 1);
            it.on_cancel = OnCancel::Release;
        })
        .reaches(&[Follows]),
        space("one process, wait", |it| {
            together(it);
            it.faults = only(|_| {});
            it.waits = 1;
        })
        .reaches(&[Follows]),
        space("wait", |it| {
            it.faults = only(|_| {});
            it.waits = 1;
        })
        .reaches(&[Duplicate]),
        space("wait, replies are lost", |it| {
            it.waits = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim, OwnStrayClaim]),
        space("wait, a command comes twice", |it| {
            it.faults = only(|faults| faults.repeats = 1);
            it.waits = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, OwnStrayClaim]),
    ]
}

/// Larger spaces, for a release build.
#[must_use]
pub fn long() -> Vec<Space> {
    vec![
        space("two calls of one caller, and another", |it| {
            it.callers = vec![caller(0, 2), caller(1, 1)];
            it.faults = only(|_| {});
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim]),
        space("two in one process, and another", |it| {
            it.callers = vec![caller(0, 1), caller(1, 1), caller(0, 1)];
            it.faults = only(|_| {});
            it.errors = false;
        })
        .reaches(&[Follows, Duplicate]),
        space("one process, renewed, a future frozen", |it| {
            it.callers = vec![caller(0, 1), caller(0, 1)];
            it.faults.freezes = 1;
            it.renewals = 1;
        })
        .reaches(&[Follows, TakenOver]),
        space("renewed, a reply lost, crash", |it| {
            it.faults.crashes = 1;
            it.renewals = 1;
        })
        .reaches(&[Duplicate, StrayClaim, StrayRenewal]),
        space("lease of 3 ticks, renewed, a reply lost", |it| {
            it.lease = 3;
            it.ttl = 4;
            it.renewals = 1;
        })
        .reaches(&[Duplicate, StrayClaim, StrayRenewal]),
        space("a full store, renewed", |it| {
            it.faults = only(|_| {});
            it.full = true;
            it.renewals = 1;
            it.errors = false;
        })
        // See `limits`.
        .without(Rule::OneRunPerTtl)
        .without(Rule::ResultStaysStored)
        .without(Rule::EffectOnceWhileHeld)
        .reaches(&[Duplicate, StrayRenewal]),
        space("three replies lost", |it| it.faults.resends = 3).reaches(&[Duplicate, StrayClaim]),
        space("wait, two replies lost", |it| {
            it.faults.resends = 2;
            it.waits = 1;
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim, OwnStrayClaim]),
        space("three callers", |it| {
            it.callers.push(caller(2, 1));
            it.faults = only(|_| {});
            it.errors = false;
        })
        .reaches(&[Duplicate, StrayClaim]),
    ]
}

impl Space {
    fn reaches(mut self, events: &[Event]) -> Self {
        self.events = events.to_vec();
        self
    }

    fn and(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    fn without(mut self, rule: Rule) -> Self {
        self.rules.retain(|other| *other != rule);
        self
    }
}

/// A space with the promised rules. Unless `change` says otherwise, it has two callers and one repeated request.
fn space(name: &'static str, change: impl FnOnce(&mut Config)) -> Space {
    Space {
        config: plain(name).with(change),
        rules: Rule::PROMISED.to_vec(),
        events: Vec::new(),
    }
}

pub(crate) fn plain(name: &'static str) -> Config {
    Config::new(name, 2)
}

pub(crate) fn caller(process: u8, calls: u8) -> Caller {
    Caller { process, calls }
}

/// These faults, without repeated requests.
pub(crate) fn only(these: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    these(&mut faults);
    faults
}
