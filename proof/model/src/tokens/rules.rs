//! The rules that hold in every state, and the events that must happen in some state.

use stateright::Property;

use super::config::Config;
use super::redeemer::{End, Phase, Redeemer};
use super::state::{Answer, Line, Operation, State};
use super::steps::Action;
use crate::search::Search;

/// A rule that holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Rule {
    /// Of all redemptions one is accepted, until its redeemer gives the token back.
    Once,
    /// A token is not given back while its body runs, after its success, or after an unknown outcome.
    StaysUsed,
    /// After the store has answered, no redemption without a body leaves the token used, also if its command arrives later.
    TakenBack,
    /// A call gives its token back before it frees its key.
    BackBeforeFree,
    /// No redeemer is refused for its own redemption.
    TrueRefusal,
    /// A body begins only with its own redemption.
    BodyHasToken,
    /// No body begins after its lease.
    InLease,
    /// An expired token is not redeemed.
    Expires,
    /// Every redeemer ends.
    EverythingEnds,
}

/// An event that must happen in a space; without it the space proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The token was refused as used.
    RefusedAsUsed,
    /// The token was refused as unknown, because it had expired.
    RefusedAsUnknown,
    /// A call was refused as a duplicate, and never sent a redemption.
    Duplicate,
    /// The redemption of a redeemer that has given up is in the store.
    Stray,
    /// The return replaced the line that a redemption in flight expects.
    Fenced,
    /// A redemption of a redeemer that has ended is still in flight.
    LateRedemption,
    /// A returned token was redeemed again.
    RedeemedAgain,
    /// A process died after its redemption: the token stays used.
    DiedWithToken,
    /// A job gave up, and the token stays used.
    NotWithdrawn,
}

impl Rule {
    /// All rules. The protocol promises each.
    pub const ALL: [Self; 9] = [
        Self::Once,
        Self::StaysUsed,
        Self::TakenBack,
        Self::BackBeforeFree,
        Self::TrueRefusal,
        Self::BodyHasToken,
        Self::InLease,
        Self::Expires,
        Self::EverythingEnds,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "a token is redeemed once",
            Self::StaysUsed => "a used token stays used",
            Self::TakenBack => "a redemption without a body is taken back",
            Self::BackBeforeFree => "the token is back before the key is free",
            Self::TrueRefusal => "no redeemer is refused for itself",
            Self::BodyHasToken => "a body has its token",
            Self::InLease => "a body begins in its lease",
            Self::Expires => "an expired token is not redeemed",
            Self::EverythingEnds => "everything ends",
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
            Self::Once => unbroken!(Once),
            Self::StaysUsed => unbroken!(StaysUsed),
            Self::BackBeforeFree => unbroken!(BackBeforeFree),
            Self::TrueRefusal => unbroken!(TrueRefusal),
            Self::BodyHasToken => unbroken!(BodyHasToken),
            Self::InLease => unbroken!(InLease),
            Self::Expires => unbroken!(Expires),
            Self::TakenBack => Property::always(self.name(), |_, state: &State| {
                state.ids().all(|id| {
                    let redeemer = state.redeemer(id);
                    let is_settled = redeemer.phase == Phase::Ended && redeemer.end == End::GaveUp;
                    !(is_settled && redeemer.lease_held() && is_used_by(state, id))
                })
            }),
            Self::EverythingEnds => Property::always(self.name(), everything_ends),
        }
    }
}

impl Event {
    pub(crate) fn property(self) -> Property<Search<Config>> {
        macro_rules! seen {
            ($name:literal, $condition:expr) => {
                Property::sometimes($name, |_: &Search<Config>, state: &State| {
                    state
                        .ids()
                        .any(|id| $condition(state, id, state.redeemer(id)))
                })
            };
        }
        match self {
            Self::RefusedAsUsed => seen!("a token was refused as used", |_, _, it: &Redeemer| {
                matches!(it.refused, Some(Answer::Other(Line::Used(_))))
            }),
            Self::RefusedAsUnknown => seen!("a token was unknown", |_, _, it: &Redeemer| {
                it.refused == Some(Answer::Absent)
            }),
            Self::Duplicate => seen!("a duplicate was refused", |_, _, it: &Redeemer| {
                it.end == End::Duplicate
            }),
            Self::Stray => seen!(
                "a stray redemption is stored",
                |state, id, it: &Redeemer| { it.end == End::GaveUp && is_used_by(state, id) }
            ),
            Self::Fenced => seen!(
                "a redemption in flight was fenced",
                |_, _, it: &Redeemer| {
                    let expects = |operation| match operation {
                        Operation::Exchange(expected, Line::Returned(_)) => {
                            !matches!(expected, Line::Used(_))
                        }
                        _ => false,
                    };
                    it.sent.is_some_and(expects) && it.answer == Some(Answer::Done)
                }
            ),
            Self::LateRedemption => seen!("a redemption is late", |state, id, it: &Redeemer| {
                it.phase == Phase::Ended && has_redemption_in_flight(state, id)
            }),
            Self::RedeemedAgain => seen!("a returned token was redeemed", |state: &State, _, _| {
                state.memory.times > 1
            }),
            Self::DiedWithToken => seen!("a redeemer died", |state, id, it: &Redeemer| {
                it.end == End::Died && is_used_by(state, id)
            }),
            Self::NotWithdrawn => seen!("a job gave up", |state, id, it: &Redeemer| {
                let gave_up = it.phase == Phase::Ended && it.end == End::GaveUp;
                gave_up && it.gives_back && is_used_by(state, id)
            }),
        }
    }
}

impl Redeemer {
    /// Whether the store has answered the return. A job that gives up with its lease is the limit of the promise.
    fn lease_held(&self) -> bool {
        self.taken_back || !self.gives_back
    }
}

fn is_used_by(state: &State, id: u8) -> bool {
    matches!(state.line(), Some(Line::Used(owner)) if owner / 4 == id)
}

fn has_redemption_in_flight(state: &State, id: u8) -> bool {
    let is_redemption = |operation| matches!(operation, Operation::Exchange(_, Line::Used(_)));
    let mut commands = state.bag.iter();
    commands.any(|command| command.by == id && is_redemption(command.operation))
}

/// Every run ends, so this checks states without a further step of the protocol itself. Commands need not be executed, and faults need
/// not happen. A redemption without a call has no lease, so its caller decides when its work ends.
fn everything_ends(search: &Search<Config>, state: &State) -> bool {
    let has_ended = |redeemer: &Redeemer| matches!(redeemer.phase, Phase::Ended | Phase::Held);
    if state.redeemers.iter().all(has_ended) {
        return true;
    }
    let by_itself = |action: &Action| {
        matches!(
            action,
            Action::Start(_)
                | Action::ReceiveAnswer(_)
                | Action::TimeOut(_)
                | Action::Stop(_)
                | Action::Tick
        )
    };
    search.goes_on(state, by_itself)
}
