//! Refused calls as statuses of tonic.
//!
//! [`Status`] converts from an [`Error`], so a guarded method may return `Result<_, Status>`.
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
//! The message is the English [`Error::text`]; [`refusal`] takes another language. The metadata has [`CODE`], [`ACTION`],
//! [`SILENT`] and [`RETRY_AFTER_MS`]. An error whose
//! advice is to wait has a `google.rpc.RetryInfo` in its details. The message and the metadata do not name the endpoint, the key, the process that holds
//! it, or the error of the store. The whole error is the source of the status. The source is not sent.

use std::sync::Arc;

use ::tonic::metadata::{AsciiMetadataValue, MetadataMap};
use ::tonic::{Code, Status};

use crate::http::Decision;
use crate::http::grpc;
use crate::http::problem::Problem;
use crate::{Error, Lang};

mod replay;
mod request_id;

/// The metadata key of [`Error::code`].
pub const CODE: &str = grpc::refusal::CODE;

/// The metadata key of [`Error::client_action`].
pub const ACTION: &str = grpc::refusal::ACTION;

/// The metadata key of [`Error::is_silent`]: `true` or `false`.
pub const SILENT: &str = grpc::refusal::SILENT;

/// The metadata key of [`Error::retry_after`] in milliseconds, rounded up. Present if the action is `wait`.
pub const RETRY_AFTER_MS: &str = grpc::refusal::RETRY_AFTER_MS;

/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Error;
/// use tonic::Status;
///
/// fn refused(error: Error) -> Status {
///     Status::from(error)
/// }
/// ```
impl From<Error> for Status {
    fn from(error: Error) -> Self {
        refusal(error, Lang::En)
    }
}

/// The status of a refused call, with its message in this language.
///
/// If the advice is to wait, the details of the status have a `google.rpc.RetryInfo`.
pub fn refusal(error: Error, lang: Lang) -> Status {
    let problem = Problem::of(&error, lang);
    let mut metadata = MetadataMap::new();
    for (name, value) in grpc::refusal::metadata(&problem) {
        if let Ok(value) = AsciiMetadataValue::try_from(value) {
            metadata.insert(name, value);
        }
    }
    let code = error.facts().grpc as u8;
    let details = grpc::refusal::details(code, &problem).unwrap_or_default();
    let (code, details) = (Code::from_i32(code.into()), details.into());
    let mut status = Status::with_details_and_metadata(code, error.text(lang), details, metadata);
    status.set_source(Arc::new(error));
    status
}

/// Decides about the key of the call, for a method behind an [`IdempotencyLayer`](crate::http::IdempotencyLayer) that ends with this
/// status. Without it the code of the status decides.
///
/// ```
/// # use idempotent_runtime as idempotence;
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
    let name = AsciiMetadataValue::from_static(grpc::outcome::name_of(decision));
    status.metadata_mut().insert(grpc::outcome::DECISION, name);
    status
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use ::tonic::Response;

    use super::*;
    use crate::{Idempotency, MemoryStore};

    #[test]
    fn every_code_is_the_code_in_the_catalog() {
        for error in Error::samples() {
            let expected = format!("{:?}", error.facts().grpc);
            let code = Status::from(error).code();
            assert_eq!(format!("{code:?}"), expected);
        }
    }

    #[test]
    fn the_metadata_has_the_advice_and_the_wait() {
        for error in Error::samples() {
            let (code, action) = (error.code(), error.client_action().as_str());
            let silent = error.is_silent().to_string();
            let wait = match code {
                "in_progress" => Some("5000"),
                "limit_reached" => Some("28500"),
                "store_unavailable" => Some("1000"),
                _ => None,
            };
            let status = Status::from(error);
            let metadata = status.metadata();
            assert_eq!(metadata.get(CODE).unwrap(), code);
            assert_eq!(metadata.get(ACTION).unwrap(), action);
            assert_eq!(metadata.get(SILENT).unwrap(), &silent[..]);
            let sent = metadata
                .get(RETRY_AFTER_MS)
                .map(|value| value.to_str().unwrap());
            assert_eq!(sent, wait, "{code}");
        }
    }

    #[test]
    fn the_message_is_for_users_and_the_source_is_for_the_log() {
        for error in Error::samples() {
            let (text, whole) = (error.text(Lang::En), error.to_string());
            let status = Status::from(error);
            assert_eq!(status.message(), text);
            let source = status.source().expect("the error");
            assert_eq!(source.to_string(), whole);
            let sent = status.into_http::<()>();
            let seen = format!("{:?}", sent.headers());
            for secret in ["orders.pay", "web-3", "10.0.0.7"] {
                assert!(!seen.contains(secret), "{secret} in {seen}");
            }
        }
    }

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

    #[test]
    fn the_message_may_be_in_a_language_of_the_program() {
        let french = Lang::custom("fr", |_| Some("Votre demande est refusée."));
        for error in Error::samples() {
            let status = refusal(error, french);
            assert_eq!(status.message(), "Votre demande est refusée.");
        }
    }
}
