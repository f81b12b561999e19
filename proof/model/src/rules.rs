//! What must never happen, and what must happen somewhere, or the space proves nothing.

use stateright::{Model as _, Property};

use crate::call::{Body, Call, Phase, Told};
use crate::protocol::{Action, Protocol};
use crate::state::State;
use crate::store::{Answer, FOR_EVER, What};

/// What holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Rule {
    /// No body is polled while another has the lease, unless the record was taken from it.
    OneBody,
    /// No body begins while a result stands recorded; with `release = false`, within ttl of the claim before.
    OneRunPerTtl,
    /// A recorded result is neither lost nor replaced within ttl.
    ResultStands,
    /// A replay is the result of a body that ran to its end, with the same payload.
    ReplayIsTrue,
    /// Nobody is told "duplicate" for a record of its own.
    NoDuplicateOfOneself,
    /// Nobody is told "running" of a call that was over before its own was made.
    RefusalIsNews,
    /// A command changes no record but its own call's.
    LoserChangesNothing,
    /// A claim never stands without an expiry.
    EveryRecordExpires,
    /// However long it takes, the key is free and every call has ended.
    EverythingEnds,
    /// There is no second effect, unless a crash or the end of the lease came between the first and its record.
    EffectOnceWhileHeld,
    /// There is no second effect at all.
    EffectOnce,
    /// No effect arrives while the body of another call runs.
    EffectAlone,
}

/// What is reached, so that the rules are put to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call was told that another runs or is done.
    Duplicate,
    /// A body was stopped, or would be, because its lease is over.
    LeaseLost,
    /// The claim of a call that was given up stands under the key.
    Ghost,
    /// A call that waits has met an earlier claim of its own.
    OwnGhost,
    /// A completion found nothing, and its result was put.
    LateCompletion,
    /// A renewal is on its way whose call is over.
    StrayRenewal,
    /// A record expired under a body, and another body runs.
    TakenOver,
    /// A call waits behind another of its process.
    Follows,
    /// The second body for one key has ended in a success.
    SecondEffect,
}

impl Rule {
    /// Those that the protocol keeps by itself.
    pub const PROMISED: [Self; 10] = [
        Self::OneBody,
        Self::OneRunPerTtl,
        Self::ResultStands,
        Self::ReplayIsTrue,
        Self::NoDuplicateOfOneself,
        Self::RefusalIsNews,
        Self::LoserChangesNothing,
        Self::EveryRecordExpires,
        Self::EverythingEnds,
        Self::EffectOnceWhileHeld,
    ];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneBody => "one body",
            Self::OneRunPerTtl => "one run per ttl",
            Self::ResultStands => "a result stands",
            Self::ReplayIsTrue => "a replay is true",
            Self::NoDuplicateOfOneself => "no duplicate of oneself",
            Self::RefusalIsNews => "a refusal is news",
            Self::LoserChangesNothing => "a loser changes nothing",
            Self::EveryRecordExpires => "every record expires",
            Self::EverythingEnds => "everything ends",
            Self::EffectOnceWhileHeld => "one effect while held",
            Self::EffectOnce => "one effect",
            Self::EffectAlone => "an effect is alone",
        }
    }

    pub(crate) fn property(self) -> Property<Protocol> {
        macro_rules! unbroken {
            ($rule:ident) => {
                Property::always(self.name(), |_: &Protocol, state: &State| {
                    state.memory.broken & (1 << Self::$rule as u16) == 0
                })
            };
        }
        match self {
            Self::OneBody => unbroken!(OneBody),
            Self::OneRunPerTtl => unbroken!(OneRunPerTtl),
            Self::ResultStands => unbroken!(ResultStands),
            Self::ReplayIsTrue => unbroken!(ReplayIsTrue),
            Self::NoDuplicateOfOneself => unbroken!(NoDuplicateOfOneself),
            Self::RefusalIsNews => unbroken!(RefusalIsNews),
            Self::LoserChangesNothing => unbroken!(LoserChangesNothing),
            Self::EffectOnceWhileHeld => unbroken!(EffectOnceWhileHeld),
            Self::EffectOnce => unbroken!(EffectOnce),
            Self::EffectAlone => unbroken!(EffectAlone),
            Self::EveryRecordExpires => Property::always(self.name(), |_, state: &State| {
                state.record.is_none_or(|record| record.left != FOR_EVER)
            }),
            Self::EverythingEnds => Property::always(self.name(), everything_ends),
        }
    }
}

impl Event {
    pub(crate) fn property(self) -> Property<Protocol> {
        macro_rules! seen {
            ($name:literal, $condition:expr) => {
                Property::sometimes($name, |_: &Protocol, state: &State| $condition(state))
            };
        }
        match self {
            Self::Duplicate => seen!("a duplicate was told", |state: &State| {
                state.calls.iter().any(|call| call.told == Told::Duplicate)
            }),
            Self::LeaseLost => seen!("a lease was lost", |state: &State| {
                state.calls.iter().any(|call| call.body == Body::Stopped)
            }),
            Self::Ghost => seen!("a ghost stands", |state: &State| {
                state.record.is_some_and(|record| {
                    let call = state.call(record.call);
                    call.phase == Phase::Over && call.body == Body::NotBegun
                })
            }),
            Self::OwnGhost => seen!("a call met itself", |state: &State| {
                let met = |call: &Call| call.phase == Phase::Removing;
                state.calls.iter().any(met)
            }),
            Self::LateCompletion => seen!("a result was put late", |state: &State| {
                let putting = |phase| {
                    let (Phase::Settling(what) | Phase::Unattended(what)) = phase else {
                        return false;
                    };
                    what == What::PutDone
                };
                let put = |call: &Call| putting(call.phase) && call.answer == Some(Answer::Claimed);
                state.calls.iter().any(put)
            }),
            Self::StrayRenewal => seen!("a renewal is astray", |state: &State| {
                let renewals = state.bag.iter().filter(|it| it.what == What::Renew);
                renewals
                    .into_iter()
                    .any(|it| state.call(it.call).phase == Phase::Over)
            }),
            Self::TakenOver => seen!("a body was taken over", |state: &State| {
                let running = |call: &&Call| call.body == Body::Running;
                state.calls.iter().filter(running).count() > 1
            }),
            Self::Follows => seen!("a call follows", |state: &State| {
                let follows = |phase| matches!(phase, Phase::Following { .. });
                state.calls.iter().any(|call| follows(call.phase))
            }),
            Self::SecondEffect => seen!("a second effect", |state: &State| {
                state
                    .calls
                    .iter()
                    .filter(|call| call.body == Body::Ok)
                    .count()
                    > 1
            }),
        }
    }
}

/// No run is endless, so it is enough to look where nothing moves by itself: a command may never be executed, and
/// nothing need go wrong.
fn everything_ends(protocol: &Protocol, state: &State) -> bool {
    let record_ends = state.record.is_none_or(|record| record.left == FOR_EVER);
    let over = |call: &Call| call.frozen || call.phase == Phase::Over;
    let all_over = state.calls.iter().all(over);
    if !record_ends || (state.record.is_none() && all_over) {
        return true;
    }
    let mut actions = Vec::new();
    protocol.actions(state, &mut actions);
    let by_itself = |action: &Action| !action.is_outside();
    (actions.into_iter().filter(by_itself))
        .any(|action| protocol.next_state(state, action).is_some())
}
