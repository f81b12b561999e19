//! The response to a refused request, in the form of a convention.

use ::http::{HeaderValue, Response, header};
use bytes::Bytes;
use serde_json::{Value, json};

use super::stamp::ACCEPTED;
use super::table::{BodyForm, Table};
#[cfg(any(feature = "actix", feature = "axum"))]
use crate::error::Error;
use crate::error::advice::ClientAction;
#[cfg(any(feature = "actix", feature = "axum"))]
use crate::error::lang::Lang;
use crate::http::problem::Problem;

const REJECTED: HeaderValue = HeaderValue::from_static("rejected");

impl Table {
    /// Sets the status of this refusal.
    pub(crate) fn set_status(&self, problem: &mut Problem) {
        if let Some(row) = self.row(problem.code) {
            problem.status = row.status;
        }
    }

    /// The response to a refused call.
    #[cfg(any(feature = "actix", feature = "axum"))]
    pub(crate) fn refusal_of(&self, error: &Error, lang: Lang) -> Response<Bytes> {
        let mut problem = Problem::of(error, lang);
        self.set_status(&mut problem);
        self.refuse(&problem)
    }

    /// The response with this problem.
    pub(crate) fn refuse(&self, problem: &Problem) -> Response<Bytes> {
        let mut response = match self.body_of(problem) {
            None => problem.response(),
            Some(body) => problem.response_with("application/json", body.to_string()),
        };
        let headers = response.headers_mut();
        if let Some(retry) = &self.retry {
            let should_retry = problem.client_action == ClientAction::Wait;
            let text = if should_retry { "true" } else { "false" };
            headers.insert(retry, HeaderValue::from_static(text));
        }
        if let Some(result) = &self.result {
            let is_accepted = self.row(problem.code).is_some_and(|row| row.is_accepted);
            headers.insert(result, if is_accepted { ACCEPTED } else { REJECTED });
        }
        response
    }

    /// The body, unless it is a problem.
    fn body_of(&self, problem: &Problem) -> Option<Value> {
        let status = problem.status.as_u16();
        let group = |fault, failure| if status < 500 { fault } else { failure };
        let (group, is_nested) = match self.body {
            BodyForm::Problem => return None,
            BodyForm::Coded => {
                return Some(json!({"error": {"code": problem.code, "message": problem.detail}}));
            }
            BodyForm::Nested { fault, failure } => (group(fault, failure), true),
            BodyForm::Flat { unavailable, .. } if status == 503 => (unavailable, false),
            BodyForm::Flat { fault, failure, .. } => (group(fault, failure), false),
        };
        let (group, code) = match self.row(problem.code) {
            Some(row) => (row.kind, row.name),
            None => (group, Some(problem.code)),
        };
        let mut error = json!({"type": group, "message": problem.detail});
        if let Some(code) = code {
            error["code"] = code.into();
        }
        Some(if is_nested {
            json!({ "error": error })
        } else {
            error
        })
    }
}

impl Problem {
    /// The response with this body instead of the problem.
    fn response_with(&self, content_type: &'static str, body: String) -> Response<Bytes> {
        let mut response = self.response::<Bytes>();
        *response.body_mut() = body.into();
        let content_type = HeaderValue::from_static(content_type);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        response
    }
}
