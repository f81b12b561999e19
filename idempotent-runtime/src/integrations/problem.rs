//! The body of a refusal: `application/problem+json`, RFC 9457.

use std::borrow::Cow;
use std::time::Duration;

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::error::wait::{advised, in_whole};
use crate::{ClientAction, Error, Lang};

/// The content type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was refused, for its client.
///
/// As an extension of a response it says that the response is this refusal, for a layer outside.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// The stable name of the reason.
    pub code: &'static str,
    /// What is wrong, for the programmer of the client.
    pub title: Cow<'static, str>,
    /// The text for the user.
    pub detail: Cow<'static, str>,
    /// The language of `detail`.
    pub lang: Lang,
    /// What the client should do.
    pub client_action: ClientAction,
    /// Whether a front end shows no message.
    pub silent: bool,
    /// How long the client should wait. `None` unless the advice is to wait.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// The problem of a refused call, in this language.
    pub fn from_error(error: &Error, lang: Lang) -> Self {
        let facts = error.facts();
        Self {
            status: StatusCode::from_u16(facts.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: facts.code,
            title: facts.title(lang).into(),
            detail: error.text(lang).into(),
            lang,
            client_action: facts.action,
            silent: facts.silent,
            retry_after: advised(error),
        }
    }

    /// The problem as JSON.
    pub fn json(&self) -> Vec<u8> {
        // A struct of texts and numbers can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The response with this problem as its body.
    pub fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = Response::new(B::from(Bytes::from(self.json())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(
            header::CONTENT_LANGUAGE,
            HeaderValue::from_static(self.lang.tag()),
        );
        if let Some(wait) = self.retry_after {
            let seconds = in_whole(Duration::from_secs(1), wait);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = 8 + usize::from(self.retry_after.is_some());
        let mut problem = serializer.serialize_struct("Problem", members)?;
        problem.serialize_field("type", &format_args!("urn:idempotence:{}", self.code))?;
        problem.serialize_field("title", &self.title)?;
        problem.serialize_field("status", &self.status.as_u16())?;
        problem.serialize_field("detail", &self.detail)?;
        problem.serialize_field("code", self.code)?;
        let retryable = self.client_action == ClientAction::Wait;
        problem.serialize_field("retryable", &retryable)?;
        problem.serialize_field("client_action", self.client_action.as_str())?;
        problem.serialize_field("silent", &self.silent)?;
        if let Some(wait) = self.retry_after {
            let millis = in_whole(Duration::from_millis(1), wait);
            problem.serialize_field("retry_after_ms", &millis)?;
        }
        problem.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_whole_seconds() {
        for (wait, seconds) in [
            (Duration::ZERO, "1"),
            (Duration::from_millis(1), "1"),
            (Duration::from_secs(1), "1"),
            (Duration::from_nanos(1_000_000_001), "2"),
            (Duration::from_secs(30), "30"),
            (Duration::MAX, "18446744073709551615"),
        ] {
            let problem = Problem {
                status: StatusCode::CONFLICT,
                code: "in_progress",
                title: "".into(),
                detail: "".into(),
                lang: Lang::En,
                client_action: ClientAction::Wait,
                silent: true,
                retry_after: Some(wait),
            };
            let response: Response<Bytes> = problem.response();
            assert_eq!(response.headers()[header::RETRY_AFTER], seconds, "{wait:?}");
        }
    }
}
