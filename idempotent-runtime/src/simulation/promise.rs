//! What is promised, and how it is told that a promise was broken.

use std::fmt;

use super::history::CallId;

/// A promise that was broken.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) promise: &'static str,
    pub(super) at: u64,
    pub(super) key: Option<usize>,
    pub(super) by: Vec<CallId>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (at {} ms, key {:?}, calls {:?})",
            self.promise, self.at, self.key, self.by
        )
    }
}

pub(super) const OWN_CLAIM: &str = "a body runs only under its own claim";
pub(super) const ONE_BODY: &str = "no two bodies run inside a lease";
pub(super) const AFTER_LEASE: &str = "a body is not polled after its lease";
pub(super) const BESIDE: &str = "a body is not polled beside a later one";
pub(super) const KEY_STAYS: &str = "a key stays taken for its ttl";
pub(super) const DONE_STAYS: &str = "what is done stays recorded";
pub(super) const OWN_RECORD: &str = "a record is changed by its own call only";
pub(super) const RENEWED: &str = "a claim is renewed until its end is recorded";
pub(super) const RECORDED: &str = "a success is recorded, or said not to be";
pub(super) const TRUE: &str = "what a call is told was true while it was made";
pub(super) const IN_TIME: &str = "every call ends in time";
pub(super) const ENDS: &str = "every call ends";
pub(super) const NOT_FOR_EVER: &str = "no record stands for ever";
pub(super) const DRAINED: &str = "what callers left comes to its end";
pub(super) const FREE: &str = "a key is free when its ttl or its lease is over";
pub(super) const USABLE: &str = "a free key can be claimed by every process";
pub(super) const NO_TASK: &str = "no task outlives its calls";
pub(super) const NO_PANIC: &str = "nothing panics that was not to";
