//! The errors of steps that do not fit each other, or their call.

use std::borrow::Cow;
use std::fmt;

use crate::error::{Duplicate, DuplicateFacts, DuplicateState, Error, Failure};
use crate::protocol::lease::Lease;
use crate::protocol::steps::Place;
use crate::record::call::Record;
use crate::world;

/// A step that does not fit another step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Misuse {
    Twice,
    Order,
    Type,
}

/// The places in the code of two steps that do not fit each other.
#[derive(Debug, thiserror::Error)]
struct Places {
    misuse: Misuse,
    first: Place,
    second: Place,
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = match self.misuse {
            Misuse::Twice => ("first used at", "used again at"),
            Misuse::Order => ("recorded at", "now at this position:"),
            Misuse::Type => ("recorded at", "read at"),
        };
        let (one, other) = (&self.first, &self.second);
        write!(
            f,
            "step `{}` {first} {}, step `{}` {second} {}",
            one.name, one.place, other.name, other.place
        )
    }
}

/// The error of two steps that do not fit each other. Its source names both places in the code.
pub(super) fn misused(lease: &Lease, misuse: Misuse, first: &Place, second: &Place) -> Error {
    let site = lease.call().site.clone();
    let (one, other) = (&first.name, &second.name);
    let what = match misuse {
        Misuse::Twice => {
            format!("two steps of the call have the name `{one}`; give each step a name of its own")
        }
        Misuse::Order => format!(
            "the steps of the call have another order than in an earlier run, which recorded the step `{one}` where the step `{other}` is now; \
             run the steps in the earlier order, or free them with `Idempotency::forget_steps`"
        ),
        Misuse::Type => format!(
            "the recorded result of the step `{other}` cannot be read as the type that the step returns now; keep the type, give the step another \
             name, or free the steps with `Idempotency::forget_steps`"
        ),
    };
    let source = Places {
        misuse,
        first: first.clone(),
        second: second.clone(),
    };
    Error::InvalidPolicy(Failure::new(site, what, Some(Box::new(source))))
}

pub(super) fn invalid(lease: &Lease, what: impl Into<Cow<'static, str>>) -> Error {
    Error::InvalidPolicy(Failure::new(lease.call().site.clone(), what, None))
}

pub(super) fn ended(lease: &Lease) -> Error {
    let what = "its call has ended, so the step was not recorded";
    Error::LeaseLost(Failure::new(lease.call().site.clone(), what, None))
}

pub(super) fn overtaken(lease: &Lease) -> Error {
    let what = "another run of the call has recorded a step meanwhile, because this run was paused for longer than its lease, or its key was freed \
                by hand; so the step ran and is not recorded: check what it did before you repeat the call";
    Error::LeaseLost(Failure::new(lease.call().site.clone(), what, None))
}

pub(super) fn another_payload(lease: &Lease, record: &Record<'_>) -> Error {
    let age = record.age(world::time_of_day());
    let left = record.remaining_at(age);
    Error::PayloadMismatch(Duplicate::new(DuplicateFacts {
        site: lease.call().site.clone(),
        state: DuplicateState::Unknown,
        holder: record.holder().to_owned(),
        age,
        retry_after: left,
        free_in: Some(left),
        further: None,
        is_equal: true,
        holders: 1,
        unavailable: None,
    }))
}
