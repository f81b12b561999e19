//! The deliberate mistakes of the tests of batches.

/// An engine with one mistake.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "some mistakes are in Redis")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
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
    /// An operation right after a batch waits for the answer to the batch, also on a slow network.
    WaitsInGap,
    /// Redis: an operation gets the reply to the next command.
    ShiftsReplies,
    /// Redis: the error of one removal is the answer to all removals.
    SharesError,
    /// Redis: a removal by an unknown script is not repeated.
    ForgetsSource,
    /// Redis: the reply to a notification is the answer to the next operation.
    ReadsNotification,
    /// Redis: writes are acknowledged without a wait for the replicas.
    AcknowledgesAtOnce,
}
