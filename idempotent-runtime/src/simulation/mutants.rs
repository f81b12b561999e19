//! Mutants: wrong protocols that look right, each from a product, a recipe or a bug report. The checks must catch all of them,
//! or they prove nothing.
//!
//! Most are at the border of the engine: a store, a policy or a clock that does what the wrong protocol would do, so that the
//! engine stays clean. The others are in the engine, behind `mutation!`.

use super::promise::{
    AFTER_LEASE, BACK_BEFORE_FREE, BODY_HAS_TOKEN, DONE_STAYS, ENDED_BEFORE_FREE, ENDS, EXPIRES,
    FENCE_GROWS, FENCE_STAYS, IN_ORDER, IN_TIME, KEY_STAYS, LATE_WRITE, NO_FAULT, NO_STUCK,
    NO_TASK, NOT_SENT, ONCE, ONE_BODY, ONE_OF_A_KEY, ONLY_RENEWALS, OVERTAKEN, OWN_ANSWER,
    OWN_CLAIM, OWN_RECORD, RECORDED, REMEMBERED, RENEWED, SEES_DEAD, STAYS_EXPIRED, STAYS_USED,
    STEP_KEPT, STEP_RUNS, TAKEN_BACK, TRUE_ANSWER, TRUE_DENIAL, USABLE,
};
use crate::mutation::Mutation;

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
    /// After a fault in a batch all its operations count as done.
    BatchFaultIsDone,
    /// A fault of an operation is the answer to all operations of its batch.
    BatchFaultIsShared,
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
    /// The body runs if the redemption gets no answer.
    RunsWithoutAnswer,
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
    /// A claim of any slot counts as accepted although another call has the slot. Only calls with permits find it.
    AnyIsTaken,
    /// A mistake in the engine.
    InEngine(Mutation),
}

impl Mutant {
    /// The mutants that calls with one key find.
    pub(super) const ALL: [Self; 51] = [
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
        Self::InEngine(Mutation::DeadlineFromReply),
        Self::InEngine(Mutation::RenewalStopsAtBodyEnd),
        Self::InEngine(Mutation::ForgetsUnrecorded),
        Self::InEngine(Mutation::ForgetsBehindClaim),
        Self::InEngine(Mutation::OldAnswerBelieved),
        Self::InEngine(Mutation::FrozenLeaderFollowed),
        Self::InEngine(Mutation::HoldFreesKey),
        Self::InEngine(Mutation::UnknownFreesKey),
        Self::InEngine(Mutation::KeptIsSuccess),
        Self::BatchFaultIsDone,
        Self::BatchFaultIsShared,
        Self::InEngine(Mutation::ShiftsAnswers),
        Self::InEngine(Mutation::SendsDropped),
        Self::InEngine(Mutation::RepeatsKeys),
        Self::InEngine(Mutation::Reorders),
        Self::InEngine(Mutation::KeepsAbandoned),
        Self::InEngine(Mutation::DropsBatchWithCaller),
        Self::InEngine(Mutation::DeniesSent),
        Self::InEngine(Mutation::LeavesQueue),
        Self::BatchMixesRenewals,
        Self::RedeemsAnyLine,
        Self::ReturnsAnyLine,
        Self::TakesBackOnce,
        Self::ReturnsAsFresh,
        Self::OwnerPerAttempt,
        Self::InEngine(Mutation::FreesKeyFirst),
        Self::InEngine(Mutation::ReturnsAfterUnknown),
        Self::RunsWithoutAnswer,
        Self::InEngine(Mutation::LateAnswerAccepted),
        Self::ReturnsExpired,
        Self::NeverTakesBack,
        Self::FenceIsClock,
        Self::FenceExpires,
        Self::FenceBeforeClaim,
        Self::FenceNewForRepeat,
        Self::FenceHidesDead,
        Self::InEngine(Mutation::FreesKeyBeforeFence),
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
            Self::NoOwnRecordCheck | Self::NewOwnerForRetry | Self::NoPayloadCheck => {
                &[TRUE_ANSWER]
            }
            Self::SetsWithoutExpiry => &[EXPIRES],
            Self::RenewsUnowned => &[RENEWED, ONE_BODY, AFTER_LEASE, OVERTAKEN, KEY_STAYS],
            Self::LosesRecords => &[ONE_BODY, OVERTAKEN, KEY_STAYS, DONE_STAYS],
            Self::OwnerOfProcess => &[OWN_CLAIM, ONE_BODY, OVERTAKEN, OWN_RECORD],
            Self::TtlShorterThanBody | Self::BodyNotStopped => &[AFTER_LEASE, OVERTAKEN],
            Self::FailsOpen => &[OWN_CLAIM],
            Self::BatchFaultIsDone => &[OWN_CLAIM, OWN_ANSWER, BODY_HAS_TOKEN],
            Self::BatchFaultIsShared => &[OWN_ANSWER, TRUE_DENIAL],
            Self::BatchMixesRenewals => &[ONLY_RENEWALS],
            Self::RedeemsAnyLine => &[ONCE, BODY_HAS_TOKEN],
            Self::ReturnsAnyLine => &[STAYS_USED, BODY_HAS_TOKEN],
            Self::TakesBackOnce => &[TAKEN_BACK],
            Self::ReturnsAsFresh => &[BACK_BEFORE_FREE, TAKEN_BACK, STAYS_USED],
            Self::NeverTakesBack => &[BACK_BEFORE_FREE, TAKEN_BACK],
            Self::OwnerPerAttempt => &[TRUE_ANSWER, BACK_BEFORE_FREE],
            Self::RunsWithoutAnswer => &[BODY_HAS_TOKEN],
            Self::ReturnsExpired => &[STAYS_EXPIRED],
            Self::FenceIsClock => &[FENCE_GROWS],
            // Without its line, or with the line of another call, the end of a fence changes nothing.
            Self::FenceExpires => &[FENCE_GROWS, ENDED_BEFORE_FREE],
            Self::FenceBeforeClaim => &[FENCE_GROWS, FENCE_STAYS, LATE_WRITE, ENDED_BEFORE_FREE],
            Self::FenceNewForRepeat => &[FENCE_STAYS],
            Self::FenceHidesDead => &[SEES_DEAD],
            Self::AnyIsTaken => &[ONE_BODY],
            Self::InEngine(mistake) => breaks(mistake),
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
                | Self::InEngine(Mutation::FreesKeyBeforeFence)
        )
    }
}

/// The promises that a mistake in the engine breaks.
fn breaks(mistake: Mutation) -> &'static [&'static str] {
    match mistake {
        // Only calls with several keys or permits make the third.
        Mutation::OldAnswerBelieved | Mutation::KeptIsSuccess | Mutation::EqualByOneKey => {
            &[TRUE_ANSWER]
        }
        Mutation::HoldFreesKey | Mutation::UnknownFreesKey => &[KEY_STAYS],
        Mutation::LateAnswerAccepted => &[OWN_CLAIM],
        Mutation::DeadlineFromReply => &[OWN_CLAIM, AFTER_LEASE, OVERTAKEN],
        Mutation::RenewalStopsAtBodyEnd => &[RENEWED, KEY_STAYS],
        Mutation::ForgetsUnrecorded | Mutation::ForgetsBehindClaim => &[REMEMBERED],
        Mutation::FrozenLeaderFollowed => &[IN_TIME, ENDS],
        // The callers may get the answers of other kinds of operations.
        Mutation::ShiftsAnswers => &[OWN_CLAIM, OWN_ANSWER, TRUE_ANSWER, BODY_HAS_TOKEN],
        Mutation::SendsDropped => &[NOT_SENT],
        Mutation::RepeatsKeys => &[ONE_OF_A_KEY],
        Mutation::Reorders => &[IN_ORDER],
        Mutation::KeepsAbandoned => &[USABLE, NO_TASK],
        Mutation::DropsBatchWithCaller => &[NO_FAULT, OWN_ANSWER],
        Mutation::DeniesSent => &[TRUE_DENIAL],
        Mutation::LeavesQueue => &[NO_STUCK],
        Mutation::FreesKeyFirst => &[BACK_BEFORE_FREE],
        Mutation::ReturnsAfterUnknown => &[STAYS_USED],
        Mutation::FreesKeyBeforeFence => &[ENDED_BEFORE_FREE],
        Mutation::OrderOfCaller => &[ENDS],
        Mutation::OneLease => &[OVERTAKEN],
        // Only calls with permits make these.
        Mutation::KeepsNoLine | Mutation::WaitsForUnpolled => &[],
        // Only calls with steps make the others.
        _ => &[STEP_KEPT, STEP_RUNS],
    }
}
