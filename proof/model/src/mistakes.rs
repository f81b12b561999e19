//! The configurations in which each mistake must be found.

use crate::config::{Config, OnCancel, Variant};
use crate::rules::Rule;
use crate::spaces::{caller, only, plain};

/// Each mistake with the rule that it breaks.
#[must_use]
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub fn wrong() -> Vec<(Config, Rule)> {
    let one_then_another = |it: &mut Config| {
        it.callers = vec![caller(0, 2), caller(1, 1)];
    };
    let renewed = |it: &mut Config| it.renewals = 1;
    let on = |name, variant, rule| (plain(name).wrong(variant), rule);
    let with = |name, variant, rule, change: &dyn Fn(&mut Config)| {
        (plain(name).wrong(variant).with(change), rule)
    };
    vec![
        on(
            "N1 unowned remove",
            Variant::UnownedRemove,
            Rule::OnlyOwnerChanges,
        ),
        on(
            "N2 unowned complete",
            Variant::UnownedComplete,
            Rule::OnlyOwnerChanges,
        ),
        on(
            "N3 lease shorter than the body",
            Variant::LeaseShorterThanBody,
            Rule::OneBody,
        ),
        on(
            "N4 own record unknown",
            Variant::OwnRecordUnknown,
            Rule::NotRefusedForItself,
        ),
        on(
            "N5 lease counted from the reply",
            Variant::LeaseFromReply,
            Rule::OneBody,
        ),
        on(
            "N6 timeout removes by owner",
            Variant::TimeoutRemovesByOwner,
            Rule::ResultStaysStored,
        ),
        with(
            "N7 owner per caller",
            Variant::OwnerPerCaller,
            Rule::OneBody,
            &one_then_another,
        ),
        on(
            "N8 expiry apart",
            Variant::ExpiryApart,
            Rule::EverythingEnds,
        ),
        with(
            "N9 unowned renewal",
            Variant::UnownedRenewal,
            Rule::OnlyOwnerChanges,
            &renewed,
        ),
        on(
            "N10 body outlives its lease",
            Variant::BodyOutlivesLease,
            Rule::OneBody,
        ),
        with(
            "N11 failover, not awaited",
            Variant::FailoverUnawaited,
            Rule::OneBody,
            &|it| {
                it.faults.failovers = 1;
            },
        ),
        on("N12 fail open", Variant::FailOpen, Rule::OneBody),
        with(
            "N13 cancel frees, effect elsewhere",
            Variant::Right,
            Rule::EffectAlone,
            &|it| {
                it.wire = true;
                it.faults.cancels = 1;
                it.on_cancel = OnCancel::Release;
            },
        ),
        with(
            "N14 payload ignored",
            Variant::PayloadIgnored,
            Rule::ReplayIsTrue,
            &|it| {
                it.payloads = true;
            },
        ),
        with(
            "N15 crash, effect without a row",
            Variant::Right,
            Rule::EffectOnce,
            &|it| {
                it.faults.crashes = 1;
            },
        ),
        on(
            "N16 timeout removes",
            Variant::TimeoutRemoves,
            Rule::EffectOnceWhileHeld,
        ),
        with(
            "renewal stops with the body",
            Variant::RenewalStopsWithBody,
            Rule::EffectOnceWhileHeld,
            &|it| {
                it.renewals = 1;
                it.punctual = true;
            },
        ),
        (
            plain("stale taken believed")
                .wrong(Variant::StaleTakenBelieved)
                .with(|it| {
                    it.callers = vec![caller(0, 1), caller(1, 1), caller(1, 1)];
                }),
            Rule::RefusalIsFresh,
        ),
        on(
            "owner per attempt",
            Variant::OwnerPerAttempt,
            Rule::NotRefusedForItself,
        ),
        (
            plain("frozen leader awaited")
                .wrong(Variant::FrozenLeaderAwaited)
                .with(|it| {
                    it.callers = vec![caller(0, 1), caller(0, 1)];
                    it.faults.freezes = 1;
                }),
            Rule::EverythingEnds,
        ),
        with(
            "wait, own stray claims unknown",
            Variant::StrayClaimsUnknown,
            Rule::NotRefusedForItself,
            &|it| it.waits = 1,
        ),
        with(
            "a hold frees the key",
            Variant::HoldFreesKey,
            Rule::OneRunPerTtl,
            &|it| it.holds = true,
        ),
        with(
            "a hold frees the key, effect elsewhere",
            Variant::HoldFreesKey,
            Rule::EffectAlone,
            &|it| (it.holds, it.wire) = (true, true),
        ),
        with(
            "the mark of a hold replaces any record",
            Variant::UnownedMark,
            Rule::OnlyOwnerChanges,
            &|it| it.holds = true,
        ),
        with(
            "a tombstone replaces any record",
            Variant::UnownedTombstone,
            Rule::OnlyOwnerChanges,
            &|it| it.full = true,
        ),
        with(
            "an unknown outcome frees the key",
            Variant::UnknownFreesKey,
            Rule::EffectOnceWhileHeld,
            &|it| it.unknown = true,
        ),
        with(
            "a hold is recorded as a success",
            Variant::HoldIsSuccess,
            Rule::ReplayIsTrue,
            &|it| it.holds = true,
        ),
        with(
            "a hold is shorter than the lease",
            Variant::HoldIsShort,
            Rule::OneRunPerTtl,
            &|it| it.holds = true,
        ),
        with("no grace", Variant::NoGrace, Rule::OneBody, &|it| {
            it.faults.drifts = 1;
        }),
    ]
}

/// What the protocol does not promise, although a reader might expect it.
#[must_use]
pub fn limits() -> Vec<(Config, Rule)> {
    vec![(
        plain("a full store, and a renewal arrives late").with(|it| {
            it.faults = only(|_| {});
            it.full = true;
            it.renewals = 1;
            it.ttl = 5;
        }),
        Rule::OneRunPerTtl,
    )]
}
