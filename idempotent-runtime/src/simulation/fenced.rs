//! Checks the numbers of fences: the rules of the model of fences.

use std::collections::{BTreeMap, BTreeSet};

use super::count::Counts;
use super::history::{BodyEnd, CallId, Event, Kind, RemovalCause};
use super::knobs::Plan;
use super::promise::{
    Broken, ENDED_BEFORE_FREE, FENCE_GROWS, FENCE_STAYS, LATE_WRITE, OWN_FENCE, SEES_DEAD,
};
use crate::policy::Release;

/// Checks a history. A run without fences has nothing to check.
pub(super) fn check(plan: &Plan, history: &[Event], counts: &mut Counts) -> Result<(), Broken> {
    if !plan.keys.iter().any(|key| key.fence) {
        return Ok(());
    }
    let mut checks = Fences {
        plan,
        keys: BTreeMap::new(),
        drawn: BTreeMap::new(),
        has_ended: BTreeMap::new(),
        ended: BTreeSet::new(),
        unguarded: BTreeSet::new(),
        counts,
    };
    for event in history {
        checks.see(event)?;
    }
    Ok(())
}

struct Fences<'a> {
    plan: &'a Plan,
    keys: BTreeMap<usize, Key>,
    /// The numbers of a call, each with the order of the claim that has it. `None`: it was drawn before the claim was stored.
    drawn: BTreeMap<CallId, Vec<(i64, Option<u64>)>>,
    /// How the body of a call has ended; `None` if the call ended without a body.
    has_ended: BTreeMap<CallId, Option<BodyEnd>>,
    /// The numbers whose fences are ended.
    ended: BTreeSet<i64>,
    /// The calls that run without a claim. The store may have one nevertheless.
    unguarded: BTreeSet<(usize, CallId)>,
    counts: &'a mut Counts,
}

/// A key, its bodies, and the resource to which they write.
#[derive(Default)]
struct Key {
    /// How many claims were stored.
    claims: u64,
    /// The stored claim, and its order.
    claim: Option<(CallId, u64)>,
    last: i64,
    bodies: Vec<Body>,
    /// The number of the last accepted write, and the order of its claim.
    written: (i64, u64),
}

#[derive(Clone, Copy)]
struct Body {
    call: CallId,
    number: i64,
    order: u64,
}

impl Fences<'_> {
    fn see(&mut self, event: &Event) -> Result<(), Broken> {
        let Event { at, key, kind } = *event;
        let Some(number_of_key) = key else {
            return Ok(());
        };
        let key = self.keys.entry(number_of_key).or_default();
        match kind {
            Kind::Put {
                call, done: false, ..
            } => {
                key.claims += 1;
                key.claim = Some((call, key.claims));
                let early = self.drawn.entry(call).or_default().iter_mut();
                for (_, order) in early.filter(|drawn| drawn.1.is_none()) {
                    *order = Some(key.claims);
                }
            }
            Kind::Put { done: true, .. } => key.claim = None,
            Kind::Removed { call, cause, .. } => {
                key.claim = None;
                return self.frees(at, number_of_key, call, cause);
            }
            Kind::FenceEnded { number } => {
                self.ended.insert(number);
            }
            Kind::Drawn { call, number } => return self.draws(at, number_of_key, call, number),
            Kind::Fenced {
                call,
                number,
                took_over,
            } => return self.begins(at, number_of_key, (call, number), took_over),
            Kind::Unguarded { call } => {
                self.unguarded.insert((number_of_key, call));
            }
            Kind::Effect { call } => return self.writes(at, number_of_key, call),
            Kind::BodyEnded { call, end } => {
                self.has_ended.insert(call, Some(end));
            }
            Kind::Returned { call, .. } | Kind::Dropped { call } | Kind::Died { call } => {
                self.has_ended.entry(call).or_insert(None);
            }
            _ => {}
        }
        Ok(())
    }

    /// The store draws a number.
    fn draws(&mut self, at: u64, key: usize, call: CallId, number: i64) -> Result<(), Broken> {
        let of_key = self.keys.entry(key).or_default();
        let order = of_key.claim.filter(|claim| claim.0 == call);
        let order = order.map(|claim| claim.1);
        let drawn = self.drawn.entry(call).or_default();
        let is_again = order.is_some() && drawn.iter().any(|before| before.1 == order);
        drawn.push((number, order));
        let is_larger = number > of_key.last;
        of_key.last = number;
        if !is_larger {
            return broken(FENCE_GROWS, at, key, call);
        }
        // A late copy of a claim may draw again after the claim has ended.
        if is_again && !self.has_ended.contains_key(&call) {
            return broken(FENCE_STAYS, at, key, call);
        }
        Ok(())
    }

    /// A call with this number is about to run its body.
    fn begins(
        &mut self,
        at: u64,
        key: usize,
        (call, number): (CallId, i64),
        took_over: bool,
    ) -> Result<(), Broken> {
        self.counts.add("fences");
        let mut drawn = self.drawn.get(&call).into_iter().flatten();
        let drawn = drawn.rfind(|drawn| drawn.0 == number);
        let Some(order) = drawn.and_then(|drawn| drawn.1) else {
            return broken(OWN_FENCE, at, key, call);
        };
        let of_key = self.keys.entry(key).or_default();
        for other in &of_key.bodies {
            if (other.order < order) != (other.number < number) || other.number == number {
                return broken(FENCE_GROWS, at, key, call);
            }
        }
        let before = of_key.bodies.iter().filter(|other| other.order < order);
        let before = before.max_by_key(|other| other.order).copied();
        of_key.bodies.push(Body {
            call,
            number,
            order,
        });
        let end = before.map(|before| self.has_ended.get(&before.call).copied().flatten());
        let is_known = |end| matches!(end, Some(BodyEnd::Success | BodyEnd::Failure));
        let earlier = before.map_or(0, |before| before.order);
        // The claim of an unguarded body took over, and that body does not know it.
        let unguarded = self.unguarded.iter().filter(|of| of.0 == key);
        let unguarded = unguarded.filter_map(|of| self.drawn.get(&of.1));
        let mut unguarded = unguarded.flatten().filter_map(|(_, order)| *order);
        let is_hidden = unguarded.any(|of_other| earlier < of_other && of_other < order);
        if end.is_some_and(|end| !is_known(end)) && !took_over && !is_hidden {
            return broken(SEES_DEAD, at, key, call);
        }
        if took_over {
            self.counts.add("fences took over");
        }
        Ok(())
    }

    /// The record of a call is removed.
    fn frees(&self, at: u64, key: usize, call: CallId, cause: RemovalCause) -> Result<(), Broken> {
        let end = self.has_ended.get(&call).copied().flatten();
        // Other successes are recorded before their fence is ended.
        let is_freed = match end {
            Some(BodyEnd::Failure) => true,
            Some(BodyEnd::Success) => self.plan.keys[key].release == Release::Always,
            _ => false,
        };
        let body = self.keys.get(&key).into_iter().flat_map(|key| &key.bodies);
        let body = body.rev().find(|body| body.call == call);
        let is_open = body.is_some_and(|body| !self.ended.contains(&body.number));
        // A store without room for the end of a fence still frees the key.
        if cause == RemovalCause::Changed(call) && is_freed && is_open && self.plan.undisturbed() {
            return broken(ENDED_BEFORE_FREE, at, key, call);
        }
        Ok(())
    }

    /// A body writes to the resource, which refuses smaller numbers.
    fn writes(&mut self, at: u64, key: usize, call: CallId) -> Result<(), Broken> {
        let of_key = self.keys.entry(key).or_default();
        let Some(body) = of_key.bodies.iter().find(|body| body.call == call) else {
            return Ok(());
        };
        if body.number < of_key.written.0 {
            self.counts.add("late writes refused");
            return Ok(());
        }
        let is_late = body.order < of_key.written.1;
        of_key.written = (body.number, body.order);
        if is_late {
            return broken(LATE_WRITE, at, key, call);
        }
        Ok(())
    }
}

fn broken(promise: &'static str, at: u64, key: usize, call: CallId) -> Result<(), Broken> {
    Err(Broken {
        promise,
        at,
        key: Some(key),
        by: vec![call],
    })
}
