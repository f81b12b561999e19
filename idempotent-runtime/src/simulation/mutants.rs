//! Mutants: wrong protocols that look right, each from a product, a recipe or a bug report. The checks must catch all of them,
//! or they prove nothing.
//!
//! Most are at the border of the engine: a store, a policy or a clock that does what the wrong protocol would do, so that the
//! engine stays clean. Eleven are in the engine, behind `mutant!`, which is `false` outside of these tests.

use super::promise::{
    AFTER_LEASE, BACK_BEFORE_FREE, BODY_HAS_TOKEN, DONE_STAYS, ENDED_BEFORE_FREE, ENDS, EXPIRES,
    FENCE_GROWS, FENCE_STAYS, IN_ORDER, IN_TIME, KEY_STAYS, LATE_WRITE, NO_FAULT, NO_STUCK,
    NO_TASK, NOT_SENT, ONCE, ONE_BODY, ONE_OF_A_KEY, ONLY_RENEWALS, OVERTAKEN, OWN_ANSWER,
    OWN_CLAIM, OWN_RECORD, RECORDED, RENEWED, SEES_DEAD, STAYS_EXPIRED, STAYS_USED, STEP_KEPT,
    STEP_RUNS, TAKEN_BACK, TRUE_ANSWER, TRUE_DENIAL, USABLE,
};
use crate::batch::Broken;
use crate::protocol::steps;

/// One wrong protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The end of a call deletes any record of the key (`DEL lock`), also the record of the next holder after the lease has
    /// expired.
    RemovesUnowned,
    /// The end of a call sets its result without comparing the stored record.
    CompletesPlainly,
    /// A claim reads, then writes.
    LooksThenPuts,
    /// A claim that is sent again after a lost reply treats its own record as the record of another call.
    NoOwnRecordCheck,
    /// A claim that is sent again has another owner. The effect is the same.
    NewOwnerForRetry,
    /// A claim is stored first, and gets its expiry in a second command (`SETNX`, `EXPIRE`).
    SetsWithoutExpiry,
    /// A renewal sets the expiry of any record of the key (`EXPIRE lock`).
    RenewsUnowned,
    /// A completion without an answer counts as a failure, and the record is removed.
    TimedOutCompletionReleased,
    /// The record does not contain the payload.
    NoPayloadCheck,
    /// The store loses records without an excuse: eviction, failover to a lagging replica.
    LosesRecords,
    /// The owner names the process, not the call.
    OwnerOfProcess,
    /// There is no renewal, and the body continues after its ttl.
    TtlShorterThanBody,
    /// The body does not stop when its lease has expired.
    BodyNotStopped,
    /// The body runs although the store is unavailable.
    FailsOpen,
    /// The lease is counted from the reply. In the engine.
    DeadlineFromReply,
    /// The renewal stops when the body returns, not when its end is recorded. In the engine.
    RenewalStopsAtBodyEnd,
    /// A follower trusts an answer that is older than itself. In the engine.
    OldAnswerBelieved,
    /// A follower waits forever for a leader that is not polled any more. In the engine.
    FrozenLeaderFollowed,
    /// A held key becomes free at the end of its call, as after a failure. In the engine.
    HoldFreesKey,
    /// The key becomes free after an error that says that the outcome is unknown, as after other errors. In the engine.
    UnknownFreesKey,
    /// A claim that lives longer than it asked for counts as a success. In the engine.
    KeptIsSuccess,
    /// After a fault in a batch all its operations count as done.
    BatchFaultIsDone,
    /// A fault of an operation is the answer to all operations of its batch.
    BatchFaultIsShared,
    /// The callers of a batch get each other's answers. In the engine of batches, as all mutants below.
    BatchShiftsAnswers,
    /// An operation is sent although its caller was dropped before.
    BatchSendsDropped,
    /// A batch has two operations of a key.
    BatchRepeatsKeys,
    /// An operation that waits for its key goes behind later operations, such as a claim behind its removal.
    BatchReorders,
    /// A batch without callers keeps its place, so that later operations wait for an answer that never comes.
    BatchKeepsAbandoned,
    /// A batch ends with any of its callers.
    BatchEndsWithCaller,
    /// An operation that was sent counts as not applied when its runtime ends.
    BatchDeniesSent,
    /// What waits stays in the queue when its runtime ends.
    BatchLeavesQueue,
    /// Renewals go in the batches of other operations. Not in the engine.
    BatchMixesRenewals,
    /// A redemption replaces any line of the token. This and all mutants below are variants of the model of tokens.
    RedeemsAnyLine,
    /// A return replaces the line of any redeemer.
    ReturnsAnyLine,
    /// A redemption without an answer is taken back once, although its command may still arrive.
    TakesBackOnce,
    /// A returned token has the line of a new token.
    ReturnsAsFresh,
    /// A redemption without an answer is sent again with a new owner.
    OwnerPerAttempt,
    /// The claim is removed before the token is given back. In the engine.
    FreesKeyFirst,
    /// The token is given back after a body whose outcome is unknown. In the engine.
    ReturnsAfterUnknown,
    /// The body runs if the redemption gets no answer.
    RunsWithoutAnswer,
    /// The lease is not checked after the redemption. In the engine.
    LateAnswerAccepted,
    /// A return stores the token again after it has expired.
    ReturnsExpired,
    /// A call that gives up does not give the token back.
    NeverTakesBack,
    /// The number of a fence is the time, without the last number. This and all mutants below are variants of the model of fences.
    FenceIsClock,
    /// The number of a fence follows the last number, without the time, and expires with its claim.
    FenceExpires,
    /// The number is drawn before the claim is won.
    FenceBeforeClaim,
    /// A claim that is found again gets another number.
    FenceNewForRepeat,
    /// A claim that took over does not say so.
    FenceHidesDead,
    /// The key is free before its fence is ended. In the engine.
    FreesKeyBeforeFence,
    /// The keys of a call are claimed in the order in which its caller names them. In the engine.
    OrderOfCaller,
    /// Only the lease of the first key is renewed and checked. In the engine.
    OneLease,
    /// A mistake of calls with steps. In the engine.
    OfSteps(steps::Broken),
}

impl Mutant {
    /// The mutants that calls with one key find.
    pub(super) const ALL: [Self; 49] = [
        Self::RemovesUnowned,
        Self::CompletesPlainly,
        Self::LooksThenPuts,
        Self::NoOwnRecordCheck,
        Self::NewOwnerForRetry,
        Self::SetsWithoutExpiry,
        Self::RenewsUnowned,
        Self::TimedOutCompletionReleased,
        Self::NoPayloadCheck,
        Self::LosesRecords,
        Self::OwnerOfProcess,
        Self::TtlShorterThanBody,
        Self::BodyNotStopped,
        Self::FailsOpen,
        Self::DeadlineFromReply,
        Self::RenewalStopsAtBodyEnd,
        Self::OldAnswerBelieved,
        Self::FrozenLeaderFollowed,
        Self::HoldFreesKey,
        Self::UnknownFreesKey,
        Self::KeptIsSuccess,
        Self::BatchFaultIsDone,
        Self::BatchFaultIsShared,
        Self::BatchShiftsAnswers,
        Self::BatchSendsDropped,
        Self::BatchRepeatsKeys,
        Self::BatchReorders,
        Self::BatchKeepsAbandoned,
        Self::BatchEndsWithCaller,
        Self::BatchDeniesSent,
        Self::BatchLeavesQueue,
        Self::BatchMixesRenewals,
        Self::RedeemsAnyLine,
        Self::ReturnsAnyLine,
        Self::TakesBackOnce,
        Self::ReturnsAsFresh,
        Self::OwnerPerAttempt,
        Self::FreesKeyFirst,
        Self::ReturnsAfterUnknown,
        Self::RunsWithoutAnswer,
        Self::LateAnswerAccepted,
        Self::ReturnsExpired,
        Self::NeverTakesBack,
        Self::FenceIsClock,
        Self::FenceExpires,
        Self::FenceBeforeClaim,
        Self::FenceNewForRepeat,
        Self::FenceHidesDead,
        Self::FreesKeyBeforeFence,
    ];
}

impl Mutant {
    /// The promises that the mutant breaks. Another broken promise would mean that the checks are wrong.
    pub(super) fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::RemovesUnowned => &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS],
            Self::CompletesPlainly | Self::LooksThenPuts => {
                &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS, TRUE_ANSWER]
            }
            Self::TimedOutCompletionReleased => &[DONE_STAYS, KEY_STAYS, RECORDED],
            Self::NoOwnRecordCheck
            | Self::NewOwnerForRetry
            | Self::NoPayloadCheck
            | Self::OldAnswerBelieved
            | Self::KeptIsSuccess => &[TRUE_ANSWER],
            Self::SetsWithoutExpiry => &[EXPIRES],
            Self::RenewsUnowned => &[RENEWED, ONE_BODY, AFTER_LEASE, OVERTAKEN, KEY_STAYS],
            Self::LosesRecords => &[ONE_BODY, OVERTAKEN, KEY_STAYS, DONE_STAYS],
            Self::OwnerOfProcess => &[OWN_CLAIM, ONE_BODY, OVERTAKEN, OWN_RECORD],
            Self::TtlShorterThanBody | Self::BodyNotStopped => &[AFTER_LEASE, OVERTAKEN],
            Self::DeadlineFromReply => &[OWN_CLAIM, AFTER_LEASE, OVERTAKEN],
            Self::FailsOpen | Self::LateAnswerAccepted => &[OWN_CLAIM],
            Self::RenewalStopsAtBodyEnd => &[RENEWED, KEY_STAYS],
            Self::FrozenLeaderFollowed => &[IN_TIME, ENDS],
            Self::HoldFreesKey | Self::UnknownFreesKey => &[KEY_STAYS],
            Self::BatchFaultIsDone => &[OWN_CLAIM, OWN_ANSWER, BODY_HAS_TOKEN],
            // The callers may get the answers of other kinds of operations.
            Self::BatchShiftsAnswers => &[OWN_CLAIM, OWN_ANSWER, TRUE_ANSWER, BODY_HAS_TOKEN],
            Self::BatchFaultIsShared => &[OWN_ANSWER],
            Self::BatchSendsDropped => &[NOT_SENT],
            Self::BatchRepeatsKeys => &[ONE_OF_A_KEY],
            Self::BatchReorders => &[IN_ORDER],
            Self::BatchKeepsAbandoned => &[USABLE, NO_TASK],
            Self::BatchEndsWithCaller => &[NO_FAULT, OWN_ANSWER],
            Self::BatchDeniesSent => &[TRUE_DENIAL],
            Self::BatchLeavesQueue => &[NO_STUCK],
            Self::BatchMixesRenewals => &[ONLY_RENEWALS],
            Self::RedeemsAnyLine => &[ONCE, BODY_HAS_TOKEN],
            Self::ReturnsAnyLine => &[STAYS_USED, BODY_HAS_TOKEN],
            Self::TakesBackOnce => &[TAKEN_BACK],
            Self::ReturnsAsFresh | Self::NeverTakesBack => &[BACK_BEFORE_FREE, TAKEN_BACK],
            Self::OwnerPerAttempt => &[TRUE_ANSWER, BACK_BEFORE_FREE],
            Self::FreesKeyFirst => &[BACK_BEFORE_FREE],
            Self::ReturnsAfterUnknown => &[STAYS_USED],
            Self::RunsWithoutAnswer => &[BODY_HAS_TOKEN],
            Self::ReturnsExpired => &[STAYS_EXPIRED],
            Self::FenceIsClock => &[FENCE_GROWS],
            // Without its line, or with the line of another call, the end of a fence changes nothing.
            Self::FenceExpires => &[FENCE_GROWS, ENDED_BEFORE_FREE],
            Self::FenceBeforeClaim => &[FENCE_GROWS, FENCE_STAYS, LATE_WRITE, ENDED_BEFORE_FREE],
            Self::FenceNewForRepeat => &[FENCE_STAYS],
            Self::FenceHidesDead => &[SEES_DEAD],
            Self::FreesKeyBeforeFence => &[ENDED_BEFORE_FREE],
            Self::OrderOfCaller => &[ENDS],
            Self::OneLease => &[OVERTAKEN],
            Self::OfSteps(_) => &[STEP_KEPT, STEP_RUNS],
        }
    }

    /// Whether calls have fences with this mutant.
    pub(super) fn is_of_fences(self) -> bool {
        matches!(
            self,
            Self::FenceIsClock
                | Self::FenceExpires
                | Self::FenceBeforeClaim
                | Self::FenceNewForRepeat
                | Self::FenceHidesDead
                | Self::FreesKeyBeforeFence
        )
    }

    /// The broken variant of the engine of batches.
    pub(super) fn of_batches(self) -> Option<Broken> {
        Some(match self {
            Self::BatchShiftsAnswers => Broken::ShiftsAnswers,
            Self::BatchSendsDropped => Broken::SendsDropped,
            Self::BatchRepeatsKeys => Broken::RepeatsKeys,
            Self::BatchReorders => Broken::Reorders,
            Self::BatchKeepsAbandoned => Broken::KeepsAbandoned,
            Self::BatchEndsWithCaller => Broken::DropsBatchWithCaller,
            Self::BatchDeniesSent => Broken::DeniesSent,
            Self::BatchLeavesQueue => Broken::LeavesQueue,
            _ => return None,
        })
    }
}
