//! Deliberate mistakes. Only tests make them, to prove that they would find them.

/// Whether this mistake is made on this thread. Outside of tests it never is, and the mistake is not compiled.
macro_rules! mutation {
    ($mistake:ident) => {{
        #[cfg(any(test, feature = "shuttle"))]
        let is_made = $crate::mutation::is_made($crate::mutation::Mutation::$mistake);
        #[cfg(not(any(test, feature = "shuttle")))]
        let is_made = false;
        is_made
    }};
}
pub(crate) use mutation;

#[cfg(test)]
pub(crate) use self::on_this_thread::assert_kept;
#[cfg(any(test, feature = "shuttle"))]
pub(crate) use self::on_this_thread::{Mutation, is_made, make};

#[cfg(any(test, feature = "shuttle"))]
mod on_this_thread {
    use std::cell::Cell;

    thread_local! {
        static MUTATION: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// One mistake of the code that the tests of a room run.
    #[allow(dead_code, reason = "some rooms need a feature")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mutation {
        // Of batches.
        /// A lone operation is queued.
        QueuesAlone,
        /// An operation is sent although its caller was dropped before.
        SendsDropped,
        /// A batch has two operations of a key.
        RepeatsKeys,
        /// An operation that waits for its key goes behind later operations.
        Reorders,
        /// The queue has no limit.
        Unbounded,
        /// Only one batch is in flight.
        OneBatchAtATime,
        /// Many operations go in one batch.
        SendsAllAtOnce,
        /// A batch is kept although all its callers are gone.
        KeepsAbandoned,
        /// A batch ends with any of its callers.
        DropsBatchWithCaller,
        /// A caller gets the answer to another operation.
        ShiftsAnswers,
        /// An operation that was sent counts as not applied when its runtime ends.
        DeniesSent,
        /// What waits stays in the queue when its runtime ends.
        LeavesQueue,
        /// A task ends after an answer, although operations wait and no other task takes them.
        ForgetsQueue,
        /// All runtimes share a queue.
        SharesQueues,
        /// Overdue batches hold up the queue.
        CountsOverdue,
        /// A server that does not answer gathers more and more overdue batches.
        GathersOverdue,
        /// Each operation that meets a full queue looks at the whole queue.
        LooksAtAllAgain,
        /// The bytes in flight have no limit.
        IgnoresBytesInFlight,
        /// Large batches count as small batches do.
        CountsLarge,
        // Of the protocol.
        /// The lease is counted from the reply.
        DeadlineFromReply,
        /// The renewal stops when the body returns, not when its end is recorded.
        RenewalStopsAtBodyEnd,
        /// The process forgets an outcome that the store has not taken in time.
        ForgetsUnrecorded,
        /// The process forgets an outcome when another call has claimed its key.
        ForgetsBehindClaim,
        /// A follower trusts an answer that is older than itself.
        OldAnswerBelieved,
        /// A follower waits forever for a leader that is not polled any more.
        FrozenLeaderFollowed,
        /// A held key becomes free at the end of its call, as after a failure.
        HoldFreesKey,
        /// The key becomes free after an error that says that the outcome is unknown, as after other errors.
        UnknownFreesKey,
        /// A claim that lives longer than it asked for counts as a success.
        KeptIsSuccess,
        /// The claim is removed before the token is given back.
        FreesKeyFirst,
        /// The token is given back after a body whose outcome is unknown.
        ReturnsAfterUnknown,
        /// The lease is not checked after the redemption.
        LateAnswerAccepted,
        /// The key is free before its fence is ended.
        FreesKeyBeforeFence,
        /// Calls that wait for a permit compete for it, also those of one process.
        KeepsNoLine,
        /// A line waits for its first call although nobody polls it.
        WaitsForUnpolled,
        /// The keys of a call are claimed in the order in which its caller names them.
        OrderOfCaller,
        /// Only the lease of the first key is renewed and checked.
        OneLease,
        /// A call that shares one key with the holder, or finds a permit taken, counts as equal to the holder.
        EqualByOneKey,
        // Of calls with steps.
        /// The record is not read, so every step runs.
        NeverReads,
        /// A step is recorded over the record of any other call.
        ReplacesOthers,
        /// A step whose record was refused counts as recorded.
        BelievesRefused,
        /// The record of the call's own step, whose reply was lost, counts as the record of another call.
        ForgetsUnanswered,
        /// A first record that may come late does not keep the record from being removed.
        RemovesBeforeLate,
        /// A run that has lost its lease records its steps without a look at the key.
        RecordsUnchecked,
        /// Such a run looks at the key before it records a step, and not after.
        ChecksOnlyBefore,
        /// Such a run looks at the key after it has recorded a step, and not before.
        ChecksOnlyAfter,
        /// The record is removed when the body fails.
        RemovesAfterError,
        /// The record stays after a success.
        StaysAfterSuccess,
        /// The record outlives the record of the success.
        LivesLonger,
        IgnoresPayload,
        IgnoresOrder,
        AllowsSameName,
        /// A step that was not recorded is taken for done.
        SkipsNext,
    }

    pub(crate) fn is_made(mistake: Mutation) -> bool {
        MUTATION.get() == Some(mistake)
    }

    /// Makes a mistake on this thread from now on, or none.
    pub(crate) fn make(mistake: Option<Mutation>) {
        MUTATION.set(mistake);
    }

    #[cfg(test)]
    /// Checks that a rule is kept, and that it is not kept with any of these mistakes.
    pub(crate) fn assert_kept(is_kept: impl Fn() -> bool, mistakes: &[Mutation]) {
        assert!(is_kept(), "the rule is broken without a mistake");
        for mistake in mistakes {
            make(Some(*mistake));
            let is_kept = is_kept();
            make(None);
            assert!(!is_kept, "the test does not find {mistake:?}");
        }
    }
}
