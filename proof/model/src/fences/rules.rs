//! The rules that hold in every state, and the events that must happen in some state.

use stateright::Property;

use super::call::{Body, Call, Phase};
use super::config::Config;
use super::state::State;
use super::store::{Line, LineState};
use crate::search::Search;

/// A rule that holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The numbers of bodies have the order of their claims.
    Increasing,
    /// A claim that is found again has the number that it has.
    SameAgain,
    /// A resource that refuses smaller numbers accepts no write of a body after a write of a later claim.
    LateWriteRefused,
    /// A claim after a body that never ended takes over.
    DeadIsSeen,
    /// No body since the last success is missing in `attempt`.
    AttemptsCount,
    /// A claim takes over only from a body that never ended, and `attempt` counts nothing else than bodies.
    NoFalseAlarm,
}

/// An event that must happen in a space; without it the space proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All calls ran their bodies.
    AllRan,
    /// A body took over.
    TookOver,
    /// A claim that took over was withdrawn.
    WithdrawnTakeover,
    /// The resource refused a write.
    WriteRefused,
    /// The claim of a call that has ended is stored.
    Stray,
    /// A claim was lost before its number was drawn.
    DrawnTooLate,
    /// The record of a number was lost or expired.
    LineLost,
}

impl Rule {
    /// The rules that the protocol promises whatever happens, if the store keeps the last number.
    pub const PROMISED: [Self; 5] = [
        Self::Increasing,
        Self::SameAgain,
        Self::LateWriteRefused,
        Self::DeadIsSeen,
        Self::AttemptsCount,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Increasing => "numbers have the order of claims",
            Self::SameAgain => "a repeated claim has its number",
            Self::LateWriteRefused => "a late write is refused",
            Self::DeadIsSeen => "a dead body is reported",
            Self::AttemptsCount => "every body is counted",
            Self::NoFalseAlarm => "no ended body is reported as dead",
        }
    }

    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! unbroken {
            ($rule:ident) => {
                Property::always(self.name(), |_: &Search<Config>, state: &State| {
                    state.memory.broken & (1 << Self::$rule as u8) == 0
                })
            };
        }
        match self {
            Self::Increasing => unbroken!(Increasing),
            Self::SameAgain => unbroken!(SameAgain),
            Self::LateWriteRefused => unbroken!(LateWriteRefused),
            Self::DeadIsSeen => unbroken!(DeadIsSeen),
            Self::AttemptsCount => unbroken!(AttemptsCount),
            Self::NoFalseAlarm => unbroken!(NoFalseAlarm),
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
            Self::AllRan => seen!("all bodies ran", |state: &State| {
                let ran = |call: &Call| call.body != Body::NotStarted;
                state.calls.iter().all(ran)
            }),
            Self::TookOver => seen!("a body took over", |state: &State| {
                let took_over = |call: &Call| {
                    call.body == Body::Running && call.line.is_some_and(Line::took_over)
                };
                state.calls.iter().any(took_over)
            }),
            Self::WithdrawnTakeover => seen!("a takeover was withdrawn", |state: &State| {
                let line = state.line;
                line.is_some_and(|line| line.state == LineState::Takeover(None))
            }),
            Self::WriteRefused => seen!("a write was refused", |state: &State| {
                state.memory.refused_write
            }),
            Self::Stray => seen!("a stray claim is stored", |state: &State| {
                state.record.is_some_and(|record| {
                    let call = state.call(record.call);
                    call.phase == Phase::Ended && call.body == Body::NotStarted
                })
            }),
            Self::DrawnTooLate => seen!("a number was drawn too late", |state: &State| {
                state.calls.iter().any(|call| call.was_too_late)
            }),
            Self::LineLost => seen!("a number was lost", |state: &State| {
                state.memory.line_lost
            }),
        }
    }
}
