//! One redeemer, from its claim to the return of the token (`protocol/redeem`, `protocol/token`).

use super::config::{Config, Variant};
use super::rules::Rule;
use super::state::{Answer, Claim, Line, Operation, State};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Redeemer {
    pub(crate) phase: Phase,
    pub(crate) end: End,
    /// How many redemptions with a new owner were sent. More than 0 only in [`Variant::OwnerPerAttempt`].
    pub(crate) attempt: u8,
    /// The remaining lease, counted from the first send; without a call, how long the job in the background still tries.
    pub(crate) lease: u8,
    /// The command whose answer it waits for.
    pub(crate) sent: Option<Operation>,
    pub(crate) answer: Option<Answer>,
    /// The end of the call gives the token back.
    pub(crate) gives_back: bool,
    /// Its body said that no work was done, so the token may be given back.
    pub(crate) may_return: bool,
    /// The store has answered the last command that takes the redemption back.
    pub(crate) taken_back: bool,
    /// The store refused its redemption.
    pub(crate) refused: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    NotStarted,
    Claiming,
    /// Its redemption is in flight, which expects this line.
    Redeeming(Line),
    Held,
    /// It gives the token back. `doubt` is the line that its unanswered redemption expects (`Owned::doubt`).
    Returning {
        doubt: Option<Line>,
    },
    /// It removes its claim.
    Removing,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// No end yet.
    Open,
    /// Another call has the key.
    Duplicate,
    /// The store refused the token.
    Refused,
    /// It gave up, or was dropped, before its body began.
    GaveUp,
    Ok,
    Err,
    /// The outcome of the body is unknown.
    Unknown,
    Died,
}

impl Redeemer {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::NotStarted,
            end: End::Open,
            attempt: 0,
            lease: 0,
            sent: None,
            answer: None,
            gives_back: false,
            may_return: false,
            taken_back: false,
            refused: None,
        }
    }

    pub(crate) fn owner(&self, id: u8) -> u8 {
        id * 4 + self.attempt
    }

    pub(crate) fn finish(&mut self) {
        self.phase = Phase::Ended;
        (self.sent, self.answer, self.lease) = (None, None, 0);
    }
}

impl State {
    pub(crate) fn start(&mut self, config: &Config, id: u8) {
        let redeemer = self.redeemer_mut(id);
        redeemer.lease = config.lease;
        if config.redeemers[usize::from(id)].key.is_some() {
            redeemer.phase = Phase::Claiming;
            self.send(id, Operation::Claim);
        } else {
            self.redeem(id, Line::Fresh);
        }
    }

    /// Sends the redemption (`SendGuard::redeem`).
    pub(crate) fn redeem(&mut self, id: u8, expected: Line) {
        let redeemer = self.redeemer_mut(id);
        redeemer.phase = Phase::Redeeming(expected);
        let used = Line::Used(redeemer.owner(id));
        self.send(id, Operation::Exchange(expected, used));
    }

    /// Handles the answer to the last command.
    pub(crate) fn answered(&mut self, config: &Config, id: u8, answer: Answer) {
        let redeemer = self.redeemer_mut(id);
        redeemer.answer = None;
        match (redeemer.phase, answer) {
            (Phase::Claiming, Answer::Done) if redeemer.lease > 0 => self.redeem(id, Line::Fresh),
            (Phase::Claiming, Answer::Done) => self.give_up(config, id, None),
            (Phase::Claiming, _) => {
                redeemer.end = End::Duplicate;
                redeemer.finish();
            }
            (Phase::Redeeming(_), Answer::Done) => {
                let is_late =
                    redeemer.lease == 0 && config.redeemers[usize::from(id)].key.is_some();
                if is_late && !config.is(Variant::LateAnswerAccepted) {
                    redeemer.gives_back = true;
                    self.give_up(config, id, None);
                } else {
                    self.accept(config, id);
                }
            }
            (Phase::Redeeming(expected), Answer::Other(line)) => match line {
                // Another owner has given it back (`SendGuard::may_expect`).
                Line::Returned(_) if line != expected => self.redeem(id, line),
                _ => self.refused(id, answer),
            },
            (Phase::Redeeming(_), _) => self.refused(id, answer),
            (Phase::Returning { doubt }, _) => self.return_answered(config, id, doubt, answer),
            (Phase::Removing, _) => self.removed(config, id),
            _ => {}
        }
    }

    /// The token is redeemed: the body of a call runs (`redeem::redeem`).
    pub(crate) fn accept(&mut self, config: &Config, id: u8) {
        let is_call = config.redeemers[usize::from(id)].key.is_some();
        let redeemer = self.redeemer_mut(id);
        redeemer.phase = Phase::Held;
        redeemer.sent = None;
        let (lease, used) = (redeemer.lease, Line::Used(redeemer.owner(id)));
        if is_call && lease == 0 {
            self.report_broken(Rule::InLease);
        }
        if self.line().is_some_and(|line| line != used) {
            self.report_broken(Rule::BodyHasToken);
        }
        if self.memory.accepted.is_some() {
            self.report_broken(Rule::Once);
        }
        self.memory.accepted = Some(id);
        self.memory.times = (self.memory.times + 1).min(2);
    }

    /// The store refused the token: the call withdraws its claim.
    fn refused(&mut self, id: u8, answer: Answer) {
        if let Answer::Other(Line::Used(owner)) = answer
            && owner / 4 == id
        {
            self.report_broken(Rule::TrueRefusal);
        }
        let redeemer = self.redeemer_mut(id);
        (redeemer.end, redeemer.refused) = (End::Refused, Some(answer));
        self.remove(id);
    }

    /// Ends a call whose body did not begin. `doubt` is the line that its unanswered redemption expects.
    pub(crate) fn give_up(&mut self, config: &Config, id: u8, doubt: Option<Line>) {
        let redeemer = self.redeemer_mut(id);
        redeemer.end = End::GaveUp;
        redeemer.gives_back |= doubt.is_some();
        if config.redeemers[usize::from(id)].key.is_none() {
            redeemer.lease = config.lease;
        }
        if redeemer.gives_back && !config.is(Variant::NeverTakesBack) {
            self.give_back(config, id, doubt);
        } else {
            self.remove(id);
        }
    }

    /// Gives the token back, and removes the claim then (`CallToken::give_back`, `Owned::take_back`).
    pub(crate) fn give_back(&mut self, config: &Config, id: u8, doubt: Option<Line>) {
        let redeemer = self.redeemer_mut(id);
        redeemer.gives_back = true;
        if config.is(Variant::FreesKeyFirst)
            && redeemer.phase != Phase::Removing
            && config.redeemers[usize::from(id)].key.is_some()
        {
            return self.remove(id);
        }
        self.return_line(config, id, doubt, None);
    }

    /// Sends a return that expects `expected`, or the line of its own redemption.
    fn return_line(
        &mut self,
        config: &Config,
        id: u8,
        doubt: Option<Line>,
        expected: Option<Line>,
    ) {
        let redeemer = self.redeemer_mut(id);
        redeemer.phase = Phase::Returning { doubt };
        let owner = redeemer.owner(id);
        let returned = if config.is(Variant::ReturnsAsFresh) {
            Line::Fresh
        } else {
            Line::Returned(owner)
        };
        let expected = expected.unwrap_or(Line::Used(owner));
        self.send(id, Operation::Exchange(expected, returned));
    }

    /// Handles the answer to a return. The redemption may still be in flight: then the line that it expects is replaced.
    fn return_answered(&mut self, config: &Config, id: u8, doubt: Option<Line>, answer: Answer) {
        let used = Line::Used(self.redeemer(id).owner(id));
        match (answer, doubt) {
            (Answer::Other(line), Some(doubt))
                if line == doubt && !config.is(Variant::TakesBackOnce) =>
            {
                self.return_line(config, id, Some(doubt), Some(doubt));
            }
            (Answer::Other(line), Some(doubt)) if line == used => {
                self.return_line(config, id, Some(doubt), None);
            }
            _ => {
                let redeemer = self.redeemer_mut(id);
                (redeemer.gives_back, redeemer.taken_back) = (false, true);
                if config.is(Variant::FreesKeyFirst) {
                    redeemer.finish();
                } else {
                    self.remove(id);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u8) {
        self.redeemer_mut(id).phase = Phase::Removing;
        self.send(id, Operation::Remove);
    }

    fn removed(&mut self, config: &Config, id: u8) {
        if self.redeemer(id).gives_back && config.is(Variant::FreesKeyFirst) {
            return self.give_back(config, id, Some(Line::Fresh));
        }
        self.redeemer_mut(id).finish();
    }

    /// Handles the end of the body.
    pub(crate) fn body_ended(&mut self, config: &Config, id: u8, ok: bool) {
        let redeemer = self.redeemer_mut(id);
        redeemer.end = if ok { End::Ok } else { End::Err };
        if ok {
            redeemer.finish();
            if let Some(key) = config.redeemers[usize::from(id)].key.map(usize::from)
                && self.keys[key].is_some_and(|claim| claim.by == id)
            {
                let remaining = config.token_ttl;
                self.keys[key] = Some(Claim {
                    by: id,
                    done: true,
                    remaining,
                });
            }
        } else if config.give_back {
            redeemer.may_return = true;
            self.give_back(config, id, None);
        } else {
            self.remove(id);
        }
    }

    /// The lease has expired, or the body is dropped with `"keep"`: it is not known whether the work is done.
    pub(crate) fn outcome_unknown(&mut self, config: &Config, id: u8) {
        let redeemer = self.redeemer_mut(id);
        redeemer.end = End::Unknown;
        if config.is(Variant::ReturnsAfterUnknown) {
            redeemer.lease = config.lease;
            return self.give_back(config, id, None);
        }
        redeemer.finish();
    }

    /// Drops the future.
    pub(crate) fn cancel(&mut self, config: &Config, id: u8) {
        match self.redeemer(id).phase {
            Phase::Claiming => self.give_up(config, id, None),
            Phase::Redeeming(expected) => self.give_up(config, id, Some(expected)),
            Phase::Held if config.releases && config.give_back => {
                let redeemer = self.redeemer_mut(id);
                (redeemer.end, redeemer.may_return) = (End::Err, true);
                self.give_back(config, id, None);
            }
            Phase::Held if config.releases => {
                self.redeemer_mut(id).end = End::Err;
                self.remove(id);
            }
            Phase::Held => self.outcome_unknown(config, id),
            // The background continues what the caller has begun.
            _ => {}
        }
    }
}
