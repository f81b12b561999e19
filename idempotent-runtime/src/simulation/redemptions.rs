//! Checks what a one-time token must keep: the rules of the model of tokens.

use std::collections::{BTreeMap, BTreeSet};

use super::call_plan::CallPlan;
use super::count::Counts;
use super::history::{BodyEnd, CallId, Event, Kind, Line, OPERATOR, RemovalCause, Returned, Sends};
use super::knobs::Plan;
use super::net::KEYS;
use super::promise::{
    BACK_BEFORE_FREE, BODY_HAS_TOKEN, Broken, ENDS, IN_TIME, ONCE, STAYS_EXPIRED, STAYS_USED,
    TAKEN_BACK, TRUE_ANSWER,
};
use crate::policy::OnCancel;

/// Checks a history. A run without tokens has nothing to check.
pub(super) fn check(plan: &Plan, history: &[Event], counts: &mut Counts) -> Result<(), Broken> {
    if plan.tokens.is_empty() {
        return Ok(());
    }
    let new = Token {
        line: Some(Line::Fresh),
        accepted: None,
        redeemed: BTreeSet::new(),
        lines: vec![(Some(Line::Fresh), 0)],
    };
    let mut checks = Redemptions {
        plan,
        tokens: vec![new; plan.tokens.len()],
        redeemers: vec![Redeemer::default(); plan.calls.len() + plan.redemptions.len()],
        messages: BTreeMap::new(),
        crashed: BTreeSet::new(),
        stopped: BTreeMap::new(),
        not_withdrawn: BTreeSet::new(),
        counts,
    };
    for event in history {
        checks.see(event)?;
    }
    checks.at_the_end()
}

#[derive(Clone)]
struct Token {
    /// `None`: the store has no record of it.
    line: Option<Line>,
    /// The redeemer whose body has begun, unless it has given the token back.
    accepted: Option<CallId>,
    /// The redeemers whose redemptions were stored.
    redeemed: BTreeSet<CallId>,
    /// All lines, and since when.
    lines: Vec<(Option<Line>, u64)>,
}

/// A call with a token, or a redemption without a call.
#[derive(Debug, Clone, Default)]
struct Redeemer {
    process: usize,
    made: Option<u64>,
    has_begun: bool,
    ended: Option<BodyEnd>,
    has_returned: bool,
    frozen_for: u64,
    /// The store had no room for its redemption or return.
    full: bool,
}

struct Redemptions<'a> {
    plan: &'a Plan,
    tokens: Vec<Token>,
    redeemers: Vec<Redeemer>,
    /// Redemptions and returns that were sent.
    messages: BTreeMap<u64, CallId>,
    crashed: BTreeSet<usize>,
    /// How long each process was paused.
    stopped: BTreeMap<usize, u64>,
    /// The processes and keys whose claims or redemptions are reported as not withdrawn.
    not_withdrawn: BTreeSet<(usize, Option<usize>)>,
    counts: &'a mut Counts,
}

impl Redemptions<'_> {
    fn see(&mut self, event: &Event) -> Result<(), Broken> {
        let Event { at, key, kind } = *event;
        match kind {
            Kind::Sent { message, call, op } if op == Sends::Exchange && call != OPERATOR => {
                self.messages.insert(message, call);
            }
            Kind::Refused {
                message,
                full: true,
            } => {
                if let Some(call) = self.messages.get(&message) {
                    self.redeemers[call.0].full = true;
                }
            }
            Kind::Crashed { process } => {
                self.crashed.insert(process);
            }
            Kind::Paused { process } => *self.stopped.entry(process).or_default() += LONGEST,
            Kind::NotWithdrawn { process } => {
                self.not_withdrawn.insert((process, key));
                self.counts.add("not withdrawn");
            }
            Kind::Token { line, by } => return self.changed(at, key, line, by),
            Kind::Removed { call, done, cause } => {
                return self.removed(at, key, (call, done, cause));
            }
            _ => {}
        }
        let Some(call) = kind
            .call()
            .filter(|call| *call != OPERATOR && self.plan.call(*call).token.is_some())
        else {
            return Ok(());
        };
        match kind {
            Kind::Made { process, .. } => {
                let redeemer = &mut self.redeemers[call.0];
                (redeemer.process, redeemer.made) = (process, Some(at));
                self.counts.add("redeemers");
            }
            Kind::Frozen { until, .. } => self.redeemers[call.0].frozen_for += until - at,
            Kind::BodyPolled { first: true, .. } => return self.begins(at, call),
            Kind::BodyEnded { end, .. } => self.redeemers[call.0].ended = Some(end),
            Kind::Dropped { .. } | Kind::Died { .. } => self.redeemers[call.0].has_returned = true,
            Kind::Returned { returned, .. } => return self.returned(at, call, returned),
            _ => {}
        }
        Ok(())
    }

    /// The body of a redeemer begins.
    fn begins(&mut self, at: u64, call: CallId) -> Result<(), Broken> {
        self.redeemers[call.0].has_begun = true;
        let token = self.token_mut(call);
        if token.accepted.replace(call).is_some() {
            return broken(ONCE, at, call);
        }
        let is_own = token.line.is_none_or(|line| line == Line::Used(call));
        if !is_own || !token.redeemed.contains(&call) {
            return broken(BODY_HAS_TOKEN, at, call);
        }
        self.counts.add("redemptions with a body");
        Ok(())
    }

    /// The store has another line for a token.
    fn changed(
        &mut self,
        at: u64,
        key: Option<usize>,
        line: Line,
        by: CallId,
    ) -> Result<(), Broken> {
        let Some(index) = key.and_then(|key| key.checked_sub(KEYS)) else {
            return Ok(());
        };
        let token = &mut self.tokens[index];
        let before = token.line.replace(line);
        token.lines.push((Some(line), at));
        if before.is_none() {
            return broken(STAYS_EXPIRED, at, by);
        }
        if let Line::Used(call) = line {
            token.redeemed.insert(call);
            if self.redeemers[call.0].has_returned {
                self.counts.add("late redemptions");
            }
            if matches!(before, Some(Line::Returned(_))) {
                self.counts.add("returned tokens redeemed");
            }
            return Ok(());
        }
        match before {
            Some(Line::Used(_)) => self.counts.add("tokens given back"),
            _ => self.counts.add("redemptions fenced"),
        }
        let Some(accepted) = self.tokens[index].accepted else {
            return Ok(());
        };
        if before == Some(Line::Used(accepted)) {
            if accepted != by || !self.owes(accepted) {
                return broken(STAYS_USED, at, accepted);
            }
            self.tokens[index].accepted = None;
        }
        Ok(())
    }

    fn removed(
        &mut self,
        at: u64,
        key: Option<usize>,
        (call, done, cause): (CallId, bool, RemovalCause),
    ) -> Result<(), Broken> {
        if let Some(index) = key.and_then(|key| key.checked_sub(KEYS)) {
            self.tokens[index].line = None;
            self.tokens[index].lines.push((None, at));
            return Ok(());
        }
        let is_own = call != OPERATOR && cause == RemovalCause::Changed(call);
        if done || !is_own || self.plan.call(call).token.is_none() {
            return Ok(());
        }
        let is_used = self.token_mut(call).line == Some(Line::Used(call));
        if is_used && self.owes(call) && !self.redeemers[call.0].full {
            return broken(BACK_BEFORE_FREE, at, call);
        }
        Ok(())
    }

    /// Whether the end of a redeemer gives its token back: no work was done.
    fn owes(&self, call: CallId) -> bool {
        let (redeemer, plan) = (&self.redeemers[call.0], self.plan.call(call));
        match redeemer.ended {
            None => !redeemer.has_begun,
            Some(BodyEnd::Failure) => plan.gives_back(),
            Some(BodyEnd::Stopped) => {
                let is_call = plan.key < KEYS;
                is_call && plan.gives_back() && plan.on_cancel == OnCancel::Release
            }
            Some(BodyEnd::Held | BodyEnd::Unknown) if plan.key >= KEYS => plan.gives_back(),
            Some(BodyEnd::Success | BodyEnd::Panic | BodyEnd::Held | BodyEnd::Unknown) => false,
        }
    }

    /// Checks that the answer to a redeemer was true at some time.
    fn returned(&mut self, at: u64, call: CallId, returned: Returned) -> Result<(), Broken> {
        let redeemer = &mut self.redeemers[call.0];
        redeemer.has_returned = true;
        let (made, process) = (redeemer.made.unwrap_or_default(), redeemer.process);
        let (ended, frozen_for) = (redeemer.ended, redeemer.frozen_for);
        let stopped = self.stopped.get(&process).copied().unwrap_or_default();
        let plan = self.plan.call(call);
        let had_line = |which: &dyn Fn(Option<Line>) -> bool| {
            let lines = &self.tokens[token_of(plan)].lines;
            let ends = lines.iter().skip(1).map(|(_, from)| *from);
            let mut lines = lines.iter().zip(ends.chain([u64::MAX]));
            lines.any(|((line, from), until)| which(*line) && *from <= at && until >= made)
        };
        let is_true = match returned {
            Returned::TokenUsed => {
                had_line(&|line| matches!(line, Some(Line::Used(by)) if by != call))
            }
            Returned::TokenUnknown => had_line(&|line| line.is_none()),
            _ if plan.key < KEYS => return Ok(()),
            Returned::Value(value) => value == call && ended == Some(BodyEnd::Success),
            Returned::BodyFailed => matches!(
                ended,
                Some(BodyEnd::Failure | BodyEnd::Held | BodyEnd::Unknown)
            ),
            Returned::Panicked => ended == Some(BodyEnd::Panic),
            Returned::Unavailable => !self.plan.undisturbed() || frozen_for > 0,
            _ => false,
        };
        if !is_true {
            return broken(TRUE_ANSWER, at, call);
        }
        let body: u64 = plan.steps.iter().sum();
        let most = 5 * self.plan.deadline / 2 + body + stopped + frozen_for + 50;
        if plan.key >= KEYS && at - made > most {
            return broken(IN_TIME, at, call);
        }
        Ok(())
    }

    /// Checks that no token stays used by a redeemer whose body has not begun.
    fn at_the_end(&mut self) -> Result<(), Broken> {
        for (index, token) in self.tokens.iter().enumerate() {
            let Some(Line::Used(call)) = token.line else {
                continue;
            };
            let (redeemer, plan) = (&self.redeemers[call.0], self.plan.call(call));
            let is_reported = [KEYS + index, plan.key]
                .iter()
                .any(|key| self.not_withdrawn.contains(&(redeemer.process, Some(*key))));
            let is_excused = redeemer.full || self.crashed.contains(&redeemer.process);
            if !redeemer.has_begun && !is_reported && !is_excused {
                return broken(TAKEN_BACK, 0, call);
            }
        }
        for call in (0..self.redeemers.len()).map(CallId) {
            let redeemer = &self.redeemers[call.0];
            if redeemer.made.is_some() && !redeemer.has_returned {
                return broken(ENDS, 0, call);
            }
        }
        Ok(())
    }

    fn token_mut(&mut self, call: CallId) -> &mut Token {
        &mut self.tokens[token_of(self.plan.call(call))]
    }
}

/// The index of the token of a redeemer.
fn token_of(plan: &CallPlan) -> usize {
    plan.token.map_or(0, |plan| plan.token)
}

/// The report names no key, so that it shows the keys of all calls with the token.
fn broken(promise: &'static str, at: u64, by: CallId) -> Result<(), Broken> {
    Err(Broken {
        promise,
        at,
        key: None,
        by: vec![by],
    })
}

/// No pause is longer.
const LONGEST: u64 = 3 * 1500;
