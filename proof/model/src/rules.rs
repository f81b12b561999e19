//! The rules that hold in every state, and the events that must happen in some state.

use stateright::Property;

use crate::call::{Body, Call, Phase};
use crate::config::Config;
use crate::search::Search;
use crate::state::State;
use crate::store::{Answer, FOR_EVER, Operation, Record};

/// A rule that holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Rule {
    /// No body is polled while another call has the lease, unless the store lost the record.
    OneBody,
    /// No body starts while a result is recorded; with `release = false`, within ttl of the previous claim; after a hold, within
    /// the lease of its call.
    OneRunPerTtl,
    /// A recorded result is neither lost nor replaced within ttl.
    ResultStaysStored,
    /// A replayed result comes from a body that returned, with the same payload.
    ReplayIsTrue,
    /// No call is refused for its own record.
    NotRefusedForItself,
    /// No call is refused for a call that had ended before it started.
    RefusalIsFresh,
    /// A command only changes the record of its own call.
    OnlyOwnerChanges,
    /// No claim is stored without an expiry.
    EveryRecordExpires,
    /// In the end the key is free and every call has ended.
    EverythingEnds,
    /// There is no second effect, unless a crash or the end of the lease prevented the record of the first.
    EffectOnceWhileHeld,
    /// There is never a second effect.
    EffectOnce,
    /// No effect arrives while the body of another call runs.
    EffectAlone,
}

/// An event that must happen in a space; without it the space proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call was refused for another call.
    Duplicate,
    /// A body was stopped because its lease had expired.
    LeaseLost,
    /// The claim of an abandoned call is stored under the key.
    StrayClaim,
    /// A waiting call found its own earlier claim.
    OwnStrayClaim,
    /// A completion found no record and stored its result.
    LateCompletion,
    /// A renewal is in flight after the end of its call.
    StrayRenewal,
    /// A record expired while its body ran, and another body runs.
    TakenOver,
    /// A call follows another call of its process.
    Follows,
    /// A second body for the key has succeeded.
    SecondEffect,
    /// The claim of a call that holds its key is stored, and another call was refused.
    HeldKey,
    /// A body runs although an earlier body held its key: its lease has ended.
    RunsAfterHold,
}

impl Rule {
    /// The rules that the protocol promises.
    pub const PROMISED: [Self; 10] = [
        Self::OneBody,
        Self::OneRunPerTtl,
        Self::ResultStaysStored,
        Self::ReplayIsTrue,
        Self::NotRefusedForItself,
        Self::RefusalIsFresh,
        Self::OnlyOwnerChanges,
        Self::EveryRecordExpires,
        Self::EverythingEnds,
        Self::EffectOnceWhileHeld,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneBody => "one body",
            Self::OneRunPerTtl => "one run per ttl",
            Self::ResultStaysStored => "a result stays stored",
            Self::ReplayIsTrue => "a replay is true",
            Self::NotRefusedForItself => "no call is refused for itself",
            Self::RefusalIsFresh => "a refusal is fresh",
            Self::OnlyOwnerChanges => "only the owner changes a record",
            Self::EveryRecordExpires => "every record expires",
            Self::EverythingEnds => "everything ends",
            Self::EffectOnceWhileHeld => "one effect while held",
            Self::EffectOnce => "one effect",
            Self::EffectAlone => "an effect is alone",
        }
    }

    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! unbroken {
            ($rule:ident) => {
                Property::always(self.name(), |_: &Search<Config>, state: &State| {
                    state.memory.broken & (1 << Self::$rule as u16) == 0
                })
            };
        }
        match self {
            Self::OneBody => unbroken!(OneBody),
            Self::OneRunPerTtl => unbroken!(OneRunPerTtl),
            Self::ResultStaysStored => unbroken!(ResultStaysStored),
            Self::ReplayIsTrue => unbroken!(ReplayIsTrue),
            Self::NotRefusedForItself => unbroken!(NotRefusedForItself),
            Self::RefusalIsFresh => unbroken!(RefusalIsFresh),
            Self::OnlyOwnerChanges => unbroken!(OnlyOwnerChanges),
            Self::EffectOnceWhileHeld => unbroken!(EffectOnceWhileHeld),
            Self::EffectOnce => unbroken!(EffectOnce),
            Self::EffectAlone => unbroken!(EffectAlone),
            Self::EveryRecordExpires => Property::always(self.name(), |_, state: &State| {
                state
                    .record
                    .is_none_or(|record| record.remaining != FOR_EVER)
            }),
            Self::EverythingEnds => Property::always(self.name(), everything_ends),
        }
    }
}

impl Event {
    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! seen {
            ($name:literal, $condition:expr) => {
                Property::sometimes($name, |_: &Search<Config>, state: &State| $condition(state))
            };
        }
        match self {
            Self::Duplicate => seen!("a duplicate was refused", |state: &State| {
                state.calls.iter().any(|call| call.is_refused)
            }),
            Self::LeaseLost => seen!("a lease was lost", |state: &State| {
                state.calls.iter().any(|call| call.body == Body::Stopped)
            }),
            Self::StrayClaim => seen!("a stray claim is stored", |state: &State| {
                state.record.is_some_and(|record| {
                    let call = state.call(record.call);
                    call.phase == Phase::Ended && call.body == Body::NotStarted
                })
            }),
            Self::OwnStrayClaim => seen!("a call found its own stray claim", |state: &State| {
                let met = |call: &Call| call.phase == Phase::RemovingStray;
                state.calls.iter().any(met)
            }),
            Self::LateCompletion => seen!("a result was put late", |state: &State| {
                let putting = |phase| {
                    let (Phase::Settling(operation) | Phase::Background(operation)) = phase else {
                        return false;
                    };
                    operation == Operation::PutDone
                };
                let put = |call: &Call| putting(call.phase) && call.answer == Some(Answer::Claimed);
                state.calls.iter().any(put)
            }),
            Self::StrayRenewal => seen!("a renewal outlives its call", |state: &State| {
                let renewals = state
                    .bag
                    .iter()
                    .filter(|it| it.operation == Operation::Renew);
                renewals
                    .into_iter()
                    .any(|it| state.call(it.call).phase == Phase::Ended)
            }),
            Self::TakenOver => seen!("a body was taken over", |state: &State| {
                let running = |call: &&Call| call.body == Body::Running;
                state.calls.iter().filter(running).count() > 1
            }),
            Self::Follows => seen!("a call follows", |state: &State| {
                let follows = |phase| matches!(phase, Phase::Following { .. });
                state.calls.iter().any(|call| follows(call.phase))
            }),
            Self::HeldKey => seen!("a duplicate of a held call was refused", |state: &State| {
                let is_held = |record: Record| state.call(record.call).body == Body::Unknown;
                state.record.is_some_and(is_held) && state.calls.iter().any(|call| call.is_refused)
            }),
            Self::RunsAfterHold => seen!("a body runs after a hold", |state: &State| {
                let has = |body| state.calls.iter().any(|call| call.body == body);
                has(Body::Unknown) && has(Body::Running)
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

/// Every run ends, so this checks states without a further step of the protocol itself. Commands need not be executed,
/// and faults need not happen.
fn everything_ends(search: &Search<Config>, state: &State) -> bool {
    let record_ends = state
        .record
        .is_none_or(|record| record.remaining == FOR_EVER);
    let has_ended = |call: &Call| call.frozen || call.phase == Phase::Ended;
    let all_ended = state.calls.iter().all(has_ended);
    if !record_ends || (state.record.is_none() && all_ended) {
        return true;
    }
    search.goes_on(state, |action| !action.is_outside())
}
