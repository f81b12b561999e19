//! The rules that hold in every state, and the events that must happen in some state.

use stateright::Property;

use super::config::Config;
use super::state::{End, Phase, State};
use super::steps::Action;
use crate::search::Search;

/// A rule that holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// Two calls that share a key do not run at once.
    OneBody,
    /// A call that has ended without a body, or whose body has returned, holds no key.
    AllOrNone,
    /// Of calls that all end without a fault, one runs.
    OneRuns,
    /// A call whose renewals are on time is not refused as too late.
    HeldWhileItWaits,
    /// Every call ends.
    EverythingEnds,
}

/// An event that must happen in a space; without it the space proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call that held a key has found another key taken.
    Met,
    /// A call was refused.
    Refused,
    /// All bodies ran.
    AllRan,
    /// Two bodies ran at once, with different keys.
    Beside,
    /// The leases of a call ended before its body ran.
    TooLate,
    /// A body ran with a key of a process that had died.
    TookOver,
    /// A dropped body left its keys taken.
    LeftTaken,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] = [
        Self::OneBody,
        Self::AllOrNone,
        Self::OneRuns,
        Self::HeldWhileItWaits,
        Self::EverythingEnds,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneBody => "no two bodies share a key",
            Self::AllOrNone => "all keys are held, or none",
            Self::OneRuns => "one of crossing calls runs",
            Self::HeldWhileItWaits => "a call that waits keeps its keys",
            Self::EverythingEnds => "everything ends",
        }
    }

    pub(crate) fn property(self) -> Property<Search<Config>> {
        match self {
            Self::OneBody => Property::always(self.name(), |_, state: &State| {
                state.broken & (1 << Self::OneBody as u8) == 0
            }),
            Self::AllOrNone => Property::always(self.name(), |_, state: &State| {
                let holds_none = |id| match (state.call(id).phase, state.call(id).end) {
                    (Phase::Ended, End::Died | End::Unknown) => true,
                    (Phase::Ended, _) => state.held_by(id) == 0,
                    _ => true,
                };
                state.ids().all(holds_none)
            }),
            Self::OneRuns => Property::always(self.name(), |_, state: &State| {
                let mut ends = state.calls.iter().map(|call| call.end);
                !ends.all(|end| end == End::Refused)
            }),
            Self::HeldWhileItWaits => {
                Property::always(self.name(), |search: &Search<Config>, state: &State| {
                    let all_on_time = state.faults.late == search.config.faults.late;
                    let is_late = state.calls.iter().any(|call| call.end == End::TooLate);
                    !(all_on_time && is_late)
                })
            }
            Self::EverythingEnds => Property::always(self.name(), everything_ends),
        }
    }
}

impl Event {
    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! some {
            ($name:literal, $condition:expr) => {
                Property::sometimes($name, |_: &Search<Config>, state: &State| {
                    state.calls.iter().any(|call| $condition(state, call.end))
                })
            };
        }
        match self {
            Self::Met => some!("a call met another", |state: &State, _| state.has_met),
            Self::Refused => some!("a call was refused", |_, end| end == End::Refused),
            Self::AllRan => some!("all bodies ran", |state: &State, _| {
                state.calls.iter().all(|call| call.end == End::Done)
            }),
            Self::Beside => some!("two bodies ran at once", |state: &State, _| {
                let running = |id: &u8| state.call(*id).phase == Phase::Running;
                state.ids().filter(running).count() > 1
            }),
            Self::TooLate => some!("a claim was too late", |_, end| end == End::TooLate),
            Self::TookOver => some!("a body took over", |state: &State, end| {
                let dead = state.calls.iter().any(|call| call.end == End::Died);
                dead && end == End::Done
            }),
            Self::LeftTaken => some!("a dropped body left its keys", |state: &State, end| {
                let holds = |id| state.call(id).end == End::Unknown && state.held_by(id) > 1;
                end == End::Unknown && state.ids().any(holds)
            }),
        }
    }
}

/// Every run ends, so this checks states without a further step of the protocol itself. A body that holds its keys ends.
fn everything_ends(search: &Search<Config>, state: &State) -> bool {
    let has_ended = state.calls.iter().all(|call| call.phase == Phase::Ended);
    let by_itself = |action: &Action| {
        matches!(
            action,
            Action::Claim(_)
                | Action::ClaimAll(_)
                | Action::End(_)
                | Action::Free(_)
                | Action::Tick { late: None }
        )
    };
    has_ended || search.goes_on(state, by_itself)
}
