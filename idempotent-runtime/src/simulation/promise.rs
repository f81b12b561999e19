//! The promises, and the report of a broken promise.

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
pub(super) const OVERTAKEN: &str = "a body is not polled after a later body has begun";
pub(super) const KEY_STAYS: &str = "a key stays taken for its ttl";
pub(super) const STEP_KEPT: &str = "a recorded step does not run again";
pub(super) const STEP_RUNS: &str = "no step is skipped that was done before the last success";
pub(super) const DONE_STAYS: &str = "a done record stays";
pub(super) const OWN_RECORD: &str = "only its own call changes a record";
pub(super) const RENEWED: &str = "a claim is renewed until its end is recorded";
pub(super) const REMEMBERED: &str =
    "a process runs no body while it knows an outcome that the store has not taken";
pub(super) const RECORDED: &str = "a success is recorded, or reported as unrecorded";
pub(super) const TRUE_ANSWER: &str = "the answer to a call was true at some time during the call";
pub(super) const IN_TIME: &str = "every call ends in time";
pub(super) const ENDS: &str = "every call ends";
pub(super) const EXPIRES: &str = "every record expires";
pub(super) const DRAINED: &str = "background work ends";
pub(super) const FREE: &str = "a key is free when its ttl or its lease has expired";
pub(super) const USABLE: &str = "every process can claim a free key";
pub(super) const NO_TASK: &str = "no task outlives its calls";
pub(super) const IN_ORDER: &str = "the operations of a key reach the store in their order";
pub(super) const ONE_OF_A_KEY: &str = "a batch has at most one operation of a key";
pub(super) const NOT_SENT: &str = "an operation whose caller is gone is not sent";
pub(super) const OWN_ANSWER: &str = "each operation of a batch gets its own answer";
pub(super) const TRUE_DENIAL: &str =
    "an operation that was sent is reported as not applied only by the store";
pub(super) const NO_STUCK: &str = "no operation waits in a queue without a task";
pub(super) const ONLY_RENEWALS: &str = "a renewal goes alone or with other renewals";
pub(super) const NO_FAULT: &str = "without a fault no operation fails";
pub(super) const ONCE: &str =
    "of all redemptions of a token one is accepted, until it is given back";
pub(super) const BODY_HAS_TOKEN: &str = "a body begins only with its own redemption";
pub(super) const STAYS_USED: &str =
    "a token is given back only by its redeemer, and only if no work was done";
pub(super) const TAKEN_BACK: &str = "a redemption without a body is taken back";
pub(super) const BACK_BEFORE_FREE: &str = "a call gives its token back before it frees its key";
pub(super) const STAYS_EXPIRED: &str = "an expired token is not stored again";
pub(super) const NO_PANIC: &str = "only planned panics happen";
pub(super) const FENCE_GROWS: &str = "the numbers of fences have the order of their claims";
pub(super) const FENCE_STAYS: &str = "a claim that is found again has the same fence";
pub(super) const OWN_FENCE: &str = "a body has the fence of its own claim";
pub(super) const LATE_WRITE: &str =
    "a resource that refuses smaller fences accepts no write after a write of a later claim";
pub(super) const SEES_DEAD: &str = "a call after a body that never ended takes over";
pub(super) const ENDED_BEFORE_FREE: &str = "the fence of a body is ended before its key is free";
