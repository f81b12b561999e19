//! What a failed request says about its operation.

use std::error::Error as StdError;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

use StoreErrorKind::{Full, Misconfigured, NotApplied, Unknown};

/// The error of a URL or of its parameters. `reason` repeats no part of the URL.
pub(crate) fn bad_url(reason: &'static str) -> StoreError {
    StoreError::new(Misconfigured, reason)
        .reason(reason)
        .place("the DynamoDB URL")
}

/// The error of an operation of the SDK.
pub(crate) trait Refusal: StdError + ProvideErrorMetadata + 'static {}

impl<E: StdError + ProvideErrorMetadata + 'static> Refusal for E {}

/// The error of a request that failed.
pub(crate) fn error<E: Refusal>(error: &SdkError<E, HttpResponse>) -> StoreError {
    let (kind, reason) = judge(error);
    // The text of a server is not trusted with the length of a log line.
    let text = DisplayErrorContext(error).to_string();
    let text: String = text.chars().take(600).collect();
    let error = StoreError::new(kind, text.escape_debug().to_string());
    match reason {
        "" => error,
        reason => error.reason(reason),
    }
}

fn judge<E: Refusal>(error: &SdkError<E, HttpResponse>) -> (StoreErrorKind, &'static str) {
    let refused = match error {
        SdkError::ConstructionFailure(_) => {
            let reason = "cannot be asked: the client has no credentials, no region or no endpoint";
            return (NotApplied, reason);
        }
        SdkError::DispatchFailure(_) if is_unreached(error) => {
            return (NotApplied, "cannot be reached");
        }
        SdkError::ServiceError(refused) => refused,
        _ => return (Unknown, ""),
    };
    match error.code().unwrap_or_default() {
        "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "ThrottlingException"
        | "ThrottledException" => (NotApplied, "has too many requests"),
        "TransactionConflictException" | "TransactionInProgressException" => {
            (NotApplied, "has a transaction with the record")
        }
        "ReplicatedWriteConflictException" => {
            (NotApplied, "has a write of the record in another region")
        }
        "ValidationException" if error.message().is_some_and(|text| text.contains("size")) => {
            (Full, "refused a record that is too large for it")
        }
        "ResourceNotFoundException" => (Misconfigured, "does not exist"),
        "AccessDeniedException" => (
            Misconfigured,
            "does not allow these credentials the request",
        ),
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException"
        | "ExpiredTokenException" => (Misconfigured, "refused the credentials"),
        // The server may have carried it out.
        _ if refused.raw().status().as_u16() >= 500 => (Unknown, "has a failure"),
        _ => (Misconfigured, ""),
    }
}

/// Whether there was no connection for the request.
fn is_unreached(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let client = error.downcast_ref::<hyper_util::client::legacy::Error>();
        if client.is_some_and(hyper_util::client::legacy::Error::is_connect) {
            return true;
        }
        cause = error.source();
    }
    false
}
