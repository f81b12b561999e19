//! Refused calls as statuses of tonic.
//!
//! [`Status`] converts from an [`Error`](idempotent_runtime::Error), so a guarded method may return `Result<_, Status>`.
//!
//! | error | code |
//! | --- | --- |
//! | `InProgress` | `ABORTED` |
//! | `AlreadyDone`, `Taken`, `OutcomeUnknown`, `ResultUnavailable`, `TokenUsed` | `ALREADY_EXISTS` |
//! | `PayloadMismatch`, `TokenUnknown` | `FAILED_PRECONDITION` |
//! | `TokenMalformed` | `INVALID_ARGUMENT` |
//! | `LimitReached` | `RESOURCE_EXHAUSTED` |
//! | `Unavailable` | `UNAVAILABLE` |
//! | `LeaseLost` | `UNKNOWN` |
//! | the others | `INTERNAL` |
//!
//! A mismatch is not `INVALID_ARGUMENT`, because in gRPC that code means that the arguments are wrong in any state of the
//! server. The arguments of a mismatch would be right with another key.
//!
//! The message is the English [`Error::text`](idempotent_runtime::Error::text); [`refusal`] takes another language. The metadata has [`CODE`], [`ACTION`],
//! [`SILENT`] and [`RETRY_AFTER_MS`]. An error whose
//! advice is to wait has a `google.rpc.RetryInfo` in its details. The message and the metadata do not name the endpoint, the key, the process that holds
//! it, or the error of the store. The whole error is the source of the status. The source is not sent.

use ::tonic::Status;
use ::tonic::metadata::AsciiMetadataValue;

use crate::layer::grpc;
use crate::response::decision::Decision;

pub use idempotent_runtime::integrations::tonic::{ACTION, CODE, RETRY_AFTER_MS, SILENT, refusal};

mod replay;

/// Decides about the key of the call, for a method behind an [`IdempotencyLayer`](crate::IdempotencyLayer) that ends with this
/// status. Without it the code of the status decides.
///
/// ```
/// use idempotence::http::Decision;
/// use idempotence::integrations::tonic::with_decision;
/// use tonic::Status;
///
/// fn bank_did_not_answer() -> Status {
///     // The money may have moved: nobody tries again before the lease ends.
///     with_decision(Status::unavailable("the bank did not answer"), Decision::Hold)
/// }
/// ```
///
/// The layer reads the decision from the metadata of the status, and removes it. A method that succeeds adds the [`Decision`] to the
/// extensions of its [`Response`](::tonic::Response) instead.
#[must_use]
pub fn with_decision(mut status: Status, decision: Decision) -> Status {
    let name = AsciiMetadataValue::from_static(grpc::name_of(decision));
    status.metadata_mut().insert(grpc::DECISION, name);
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::tonic::Response;
    use idempotent_runtime::{Idempotency, MemoryStore};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_response_is_replayed_with_its_message() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let pay = |cents: u64| {
            let call = idempotency
                .call("payments.pay")
                .key(&())
                .ttl(Duration::from_mins(1));
            call.replay()
                .run(async move { Ok::<_, Status>(Response::new(cents)) })
        };
        assert_eq!(pay(5).await.unwrap().into_inner(), 5);
        assert_eq!(pay(6).await.unwrap().into_inner(), 5);
    }
}
