//! The rules that hold in every state, and the events that must happen in some state.

use stateright::Property;

use super::config::Config;
use super::state::{Phase, State};
use super::steps::Action;
use crate::search::Search;

/// A rule that holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A step that was recorded when a run began does not run again in it, while the record lives.
    NoneTwice,
    /// No run skips a step that was done before the last success.
    NoneSkipped,
    /// The same, also between a record that is stored after the lease of its run, and the look of the run at its key. This is not promised.
    NoneSkippedInTheWindow,
    /// Only one run learns that it has recorded a step.
    OneRecorder,
    /// No run is refused because of a record that it has sent itself.
    NotRefusedForItself,
    /// Every run ends.
    EverythingEnds,
}

/// An event that must happen in a space; without it the space proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A run has skipped a recorded step.
    Skipped,
    /// A run began while another, which had lost its lease, went on.
    TookOver,
    /// A run has learned that another has overtaken it.
    Overtaken,
    /// A run has taken its record back.
    TakenBack,
    /// A record that was late was stored.
    CameLate,
    /// A run has found its own record, whose reply was lost.
    Adopted,
    /// A run began after a success had expired.
    BeganAgain,
}

impl Rule {
    /// What is promised.
    pub const ALL: [Self; 5] = [
        Self::NoneTwice,
        Self::NoneSkipped,
        Self::OneRecorder,
        Self::NotRefusedForItself,
        Self::EverythingEnds,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoneTwice => "no recorded step runs again",
            Self::NoneSkipped => "no other step is skipped",
            Self::NoneSkippedInTheWindow => "no step is skipped in the window",
            Self::OneRecorder => "one run records a step",
            Self::NotRefusedForItself => "no run is refused for itself",
            Self::EverythingEnds => "everything ends",
        }
    }

    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! unbroken {
            ($rule:expr) => {
                Property::always(self.name(), |_: &Search<Config>, state: &State| {
                    state.broken & (1 << $rule as u8) == 0
                })
            };
        }
        match self {
            Self::NoneTwice => unbroken!(Rule::NoneTwice),
            Self::NoneSkipped => unbroken!(Rule::NoneSkipped),
            Self::NoneSkippedInTheWindow => unbroken!(Rule::NoneSkippedInTheWindow),
            Self::OneRecorder => unbroken!(Rule::OneRecorder),
            Self::NotRefusedForItself => unbroken!(Rule::NotRefusedForItself),
            Self::EverythingEnds => Property::always(self.name(), everything_ends),
        }
    }
}

impl Event {
    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! happens {
            ($event:expr, $name:literal) => {
                Property::sometimes($name, |_: &Search<Config>, state: &State| {
                    state.happened & (1 << $event as u8) != 0
                })
            };
        }
        match self {
            Self::Skipped => happens!(Event::Skipped, "a recorded step was skipped"),
            Self::TookOver => happens!(Event::TookOver, "a run took over"),
            Self::Overtaken => happens!(Event::Overtaken, "a run was overtaken"),
            Self::TakenBack => happens!(Event::TakenBack, "a record was taken back"),
            Self::CameLate => happens!(Event::CameLate, "a record came late"),
            Self::Adopted => happens!(Event::Adopted, "a run found its own record"),
            Self::BeganAgain => happens!(Event::BeganAgain, "a run began after a success"),
        }
    }
}

/// Every run ends, so this checks states without a further step of the protocol itself.
fn everything_ends(search: &Search<Config>, state: &State) -> bool {
    let has_ended = state.runs.iter().all(|run| run.phase == Phase::Ended);
    let by_itself = |action: &Action| {
        matches!(
            action,
            Action::Claim(_)
                | Action::Go(_)
                | Action::Record(_)
                | Action::Succeed(_)
                | Action::Tick { late: None }
        )
    };
    has_ended || search.goes_on(state, by_itself)
}
