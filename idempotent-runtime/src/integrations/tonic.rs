//! Refused calls as statuses of tonic.

use std::sync::Arc;

use ::tonic::metadata::{AsciiMetadataValue, MetadataMap};
use ::tonic::{Code, Status};

use crate::integrations::grpc;
use crate::integrations::problem::Problem;
use crate::{Error, Lang};

mod request_id;

/// The metadata key of [`Error::code`].
pub const CODE: &str = grpc::CODE;

/// The metadata key of [`Error::client_action`].
pub const ACTION: &str = grpc::ACTION;

/// The metadata key of [`Error::is_silent`]: `true` or `false`.
pub const SILENT: &str = grpc::SILENT;

/// The metadata key of [`Error::retry_after`] in milliseconds, rounded up. Present if the action is `wait`.
pub const RETRY_AFTER_MS: &str = grpc::RETRY_AFTER_MS;

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
    let problem = Problem::from_error(&error, lang);
    let mut metadata = MetadataMap::new();
    for (name, value) in grpc::metadata(&problem) {
        if let Ok(value) = AsciiMetadataValue::try_from(value) {
            metadata.insert(name, value);
        }
    }
    let code = error.facts().grpc as u8;
    let details = grpc::details(code, &problem).unwrap_or_default();
    let (code, details) = (Code::from_i32(code.into()), details.into());
    let mut status = Status::with_details_and_metadata(code, error.text(lang), details, metadata);
    status.set_source(Arc::new(error));
    status
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

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

    #[test]
    fn the_message_may_be_in_a_language_of_the_program() {
        let french = Lang::custom("fr", |_| Some("Votre demande est refusée."));
        for error in Error::samples() {
            let status = refusal(error, french);
            assert_eq!(status.message(), "Votre demande est refusée.");
        }
    }
}
