//! The state of the model, and the store.

use super::config::{Config, Faults, Variant};
use super::redeemer::{Phase, Redeemer};
use super::rules::Rule;

/// One state of the token, its keys, its redeemers and the messages between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The line of the token, and its remaining time.
    pub(crate) token: Option<(Line, u8)>,
    pub(crate) keys: Vec<Option<Claim>>,
    pub(crate) redeemers: Vec<Redeemer>,
    /// Sent commands that may be executed, sorted.
    pub(crate) bag: Vec<Command>,
    pub(crate) faults: Faults,
    pub(crate) memory: Memory,
}

/// Facts that only the rules know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// A bit for each broken rule.
    pub(crate) broken: u16,
    /// The redeemer whose redemption is accepted, unless it has given the token back.
    pub(crate) accepted: Option<u8>,
    /// How many redemptions were accepted, at most 2.
    pub(crate) times: u8,
    pub(crate) token_expired: bool,
}

/// The line of the token (`record::token`). An owner is `redeemer * 4 + attempt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Line {
    Fresh,
    Used(u8),
    Returned(u8),
}

/// The record under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) by: u8,
    /// The call has succeeded: its record stays.
    pub(crate) done: bool,
    pub(crate) remaining: u8,
}

/// A command in flight to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub(crate) by: u8,
    pub(crate) operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    Claim,
    /// `exchange`: the line that it expects, and the new line.
    Exchange(Line, Line),
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Done,
    Absent,
    Taken,
    Other(Line),
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        Self {
            token: Some((Line::Fresh, config.token_ttl)),
            keys: vec![None; config.keys()],
            redeemers: vec![Redeemer::new(); config.redeemers.len()],
            bag: Vec::new(),
            faults: config.faults,
            memory: Memory::default(),
        }
    }

    pub(crate) fn redeemer(&self, id: u8) -> &Redeemer {
        &self.redeemers[usize::from(id)]
    }

    pub(crate) fn redeemer_mut(&mut self, id: u8) -> &mut Redeemer {
        &mut self.redeemers[usize::from(id)]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.redeemers.len()).expect("redeemers are few")
    }

    pub(crate) fn line(&self) -> Option<Line> {
        self.token.map(|(line, _)| line)
    }

    pub(crate) fn send(&mut self, by: u8, operation: Operation) {
        let command = Command { by, operation };
        let place = self.bag.partition_point(|other| *other <= command);
        self.bag.insert(place, command);
        let redeemer = self.redeemer_mut(by);
        (redeemer.sent, redeemer.answer) = (Some(operation), None);
    }

    pub(crate) fn report_broken(&mut self, rule: Rule) {
        self.memory.broken |= 1 << rule as u16;
    }

    /// Executes a command atomically, and gives the answer to its redeemer if the redeemer still waits for it.
    pub(crate) fn execute(&mut self, config: &Config, command: Command) {
        let Command { by, operation } = command;
        let key = config.redeemers[usize::from(by)].key.map(usize::from);
        let answer = match (operation, key) {
            (Operation::Claim, Some(key)) => match self.keys[key] {
                Some(claim) if claim.by == by && !claim.done => Answer::Done,
                Some(_) => Answer::Taken,
                None => {
                    self.keys[key] = Some(Claim {
                        by,
                        done: false,
                        remaining: config.lease + config.grace,
                    });
                    Answer::Done
                }
            },
            (Operation::Remove, Some(key)) => match self.keys[key] {
                Some(claim) if claim.by == by && !claim.done => {
                    self.key_is_freed(by);
                    self.keys[key] = None;
                    Answer::Done
                }
                _ => Answer::Absent,
            },
            (Operation::Exchange(expected, value), _) => self.exchange(config, by, expected, value),
            (Operation::Claim | Operation::Remove, None) => Answer::Absent,
        };
        let redeemer = self.redeemer_mut(by);
        if redeemer.sent == Some(operation) {
            redeemer.answer.get_or_insert(answer);
        }
    }

    /// Drops commands that can no longer change anything and whose answers no redeemer awaits. The checker also covers runs in which they
    /// are never executed, so this misses nothing.
    pub(crate) fn drop_inert_commands(&mut self, config: &Config) {
        let mut bag = std::mem::take(&mut self.bag);
        let claims: Vec<u8> = bag
            .iter()
            .filter(|command| command.operation == Operation::Claim)
            .map(|command| command.by)
            .collect();
        bag.retain(|command| {
            let is_awaited = self.redeemer(command.by).sent == Some(command.operation);
            is_awaited || !self.is_inert(config, *command, &claims)
        });
        self.bag = bag;
    }

    fn is_inert(&self, config: &Config, command: Command, claims: &[u8]) -> bool {
        let any = [Variant::RedeemsAnyLine, Variant::ReturnsAnyLine];
        match command.operation {
            Operation::Claim => false,
            Operation::Remove => {
                let is_own = |claim: &Option<Claim>| claim.is_some_and(|it| it.by == command.by);
                !claims.contains(&command.by) && !self.keys.iter().any(is_own)
            }
            Operation::Exchange(..) if any.contains(&config.variant) => false,
            Operation::Exchange(..) if self.token.is_none() => !config.is(Variant::ReturnsExpired),
            // No line is stored twice, and the first line is `Fresh`.
            Operation::Exchange(expected, _) => {
                expected == Line::Fresh
                    && self.line() != Some(Line::Fresh)
                    && !config.is(Variant::ReturnsAsFresh)
            }
        }
    }

    fn exchange(&mut self, config: &Config, by: u8, expected: Line, value: Line) -> Answer {
        let returns = !matches!(value, Line::Used(_));
        let Some((line, remaining)) = self.token else {
            if returns && config.is(Variant::ReturnsExpired) {
                self.token = Some((value, config.token_ttl));
                return Answer::Done;
            }
            return Answer::Absent;
        };
        let any = match value {
            Line::Used(_) => config.is(Variant::RedeemsAnyLine),
            _ => config.is(Variant::ReturnsAnyLine),
        };
        if line == value {
            return Answer::Done;
        }
        if line != expected && !any {
            return Answer::Other(line);
        }
        if returns {
            self.is_returned(by);
        } else if self.memory.token_expired {
            self.report_broken(Rule::Expires);
        }
        self.token = Some((value, remaining));
        Answer::Done
    }

    /// Checks a return that replaces the line of an accepted redemption.
    fn is_returned(&mut self, by: u8) {
        if self.memory.accepted.is_none_or(|accepted| {
            self.line() != Some(Line::Used(self.redeemer(accepted).owner(accepted)))
        }) {
            return;
        }
        if self.memory.accepted != Some(by) || !self.redeemer(by).may_return {
            self.report_broken(Rule::StaysUsed);
        }
        self.memory.accepted = None;
    }

    /// Checks that a call which must give its token back has done so.
    fn key_is_freed(&mut self, by: u8) {
        let redeemer = self.redeemer(by);
        let gives_back = redeemer.gives_back || matches!(redeemer.phase, Phase::Returning { .. });
        if gives_back && self.line() == Some(Line::Used(redeemer.owner(by))) {
            self.report_broken(Rule::BackBeforeFree);
        }
    }
}
