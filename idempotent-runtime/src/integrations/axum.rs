//! Refused calls as responses of axum, and extractors for `X-Request-Id` and the language.

use std::sync::Arc;

use ::axum::http::{HeaderName, HeaderValue};
use ::axum::response::{IntoResponse, Response};

use crate::integrations::problem::Problem;
use crate::{Error, Lang, Once};

mod lang;
mod rejection;
mod request_id;

/// The response to a refused call in this language. The extractor [`Lang`] reads the language that the request asks for.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use axum::response::{IntoResponse, Response};
/// use idempotence::{Error, Lang};
///
/// enum AppError {
///     NotFound,
///     Refused(Error),
/// }
///
/// impl IntoResponse for AppError {
///     fn into_response(self) -> Response {
///         match self {
///             Self::NotFound => axum::http::StatusCode::NOT_FOUND.into_response(),
///             Self::Refused(error) => idempotence::integrations::axum::refusal(error, Lang::ZhHans),
///         }
///     }
/// }
/// ```
///
/// Inside of an `http::IdempotencyLayer` the response takes the form of the layer's profile. Outside of a layer `refusal_as` has
/// the form of a profile.
pub fn refusal(error: Error, lang: Lang) -> Response {
    let problem = Problem::from_error(&error, lang);
    let mut response = problem.response();
    response.extensions_mut().insert(problem);
    response.extensions_mut().insert(Arc::new(error));
    response
}

/// [`refusal`] in English.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        refusal(self, Lang::En)
    }
}

/// The response of the value. A replayed response also has the header `idempotency-replayed: true`.
impl<T: IntoResponse> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        let replayed = self.is_replayed();
        let mut response = self.into_inner().into_response();
        if replayed {
            response.headers_mut().insert(
                HeaderName::from_static("idempotency-replayed"),
                HeaderValue::from_static("true"),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use ::axum::body::to_bytes;
    use ::axum::http::{StatusCode, header};
    use serde_json::Value;

    use super::*;
    use crate::ClientAction;

    fn sample(code: &str) -> Error {
        let found = Error::samples()
            .into_iter()
            .find(|error| error.code() == code);
        found.expect("a sample")
    }

    /// The problem that the docs of this file show.
    fn example() -> Value {
        let lines = include_str!("../../../idempotent-http/src/integrations/axum.rs").lines();
        let lines = lines.skip_while(|line| *line != "//! ```json").skip(1);
        let lines = lines.take_while(|line| *line != "//! ```");
        let json: String = lines.map(|line| &line["//!".len()..]).collect();
        serde_json::from_str(&json).expect("JSON")
    }

    async fn body(response: Response) -> String {
        let bytes = to_bytes(response.into_body(), 10_000).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_refused_call_is_a_problem_that_says_what_to_do() {
        let response = sample("in_progress").into_response();
        assert_eq!(response.status(), StatusCode::CONFLICT);
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(headers[header::CONTENT_LANGUAGE], "en");
        assert_eq!(headers[header::RETRY_AFTER], "5");
        let problem: Value = serde_json::from_str(&body(response).await).unwrap();
        assert_eq!(problem, example());
    }

    #[tokio::test]
    async fn the_detail_may_be_in_another_language() {
        let response = refusal(sample("in_progress"), Lang::ZhHans);
        assert_eq!(response.headers()[header::CONTENT_LANGUAGE], "zh-Hans");
        let problem: Value = serde_json::from_str(&body(response).await).unwrap();
        assert_eq!(problem["detail"], "系统正在处理中，请勿重复操作");
    }

    #[tokio::test]
    async fn the_detail_may_be_in_a_language_of_the_program() {
        let french = Lang::custom("fr", |code| match code {
            "in_progress" => Some("Votre demande est en cours de traitement."),
            _ => None,
        });
        let response = refusal(sample("in_progress"), french);
        assert_eq!(response.headers()[header::CONTENT_LANGUAGE], "fr");
        let problem: Value = serde_json::from_str(&body(response).await).unwrap();
        let detail = "Votre demande est en cours de traitement.";
        assert_eq!(problem["detail"], detail);
    }

    #[test]
    fn every_status_is_the_status_in_the_catalog() {
        for error in Error::samples() {
            let (code, http) = (error.code(), error.facts().http);
            assert_eq!(error.into_response().status(), http, "{code}");
        }
    }

    #[tokio::test]
    async fn only_an_error_whose_advice_is_to_wait_has_a_retry_after() {
        for error in Error::samples() {
            let code = error.code();
            let waits = error.client_action() == ClientAction::Wait;
            let response = error.into_response();
            let header = response.headers().contains_key(header::RETRY_AFTER);
            let member = body(response).await.contains("retry_after_ms");
            assert_eq!((header, member), (waits, waits), "{code}");
        }
    }

    #[tokio::test]
    async fn a_response_has_no_internals_of_the_server() {
        for error in Error::samples() {
            let fingerprint = format!("{error}");
            let fingerprint = fingerprint.split_once("with key ").expect("a key").1;
            let secrets = ["orders.pay", "web-3", "10.0.0.7", &fingerprint[..8]];
            let response = error.into_response();
            let seen = format!("{:?}", response.headers()) + &body(response).await;
            for secret in secrets {
                assert!(!seen.contains(secret), "{secret} in {seen}");
            }
        }
    }

    #[test]
    fn a_layer_finds_the_whole_error_in_the_response() {
        let response = sample("store_unavailable").into_response();
        let error = response.extensions().get::<Arc<Error>>();
        assert!(error.is_some_and(|error| error.is_unavailable()));
    }

    #[test]
    fn a_replayed_response_says_so() {
        let [executed, replayed] =
            [Once::Executed("body"), Once::Replayed("body")].map(IntoResponse::into_response);
        assert_eq!(executed.headers().get("idempotency-replayed"), None);
        assert_eq!(replayed.headers()["idempotency-replayed"], "true");
    }
}
