//! The response to a refused request, in the form of a convention.

use ::http::{HeaderValue, Response, header};
use bytes::Bytes;
use idempotent_runtime::port::http::{Problem, built_in};
use idempotent_runtime::{ClientAction, Lang};
use serde_json::{Value, json};

use super::stamp::ACCEPTED;
use super::table::{BodyForm, Table};
use crate::catalog::ProfileForm;

const REJECTED: HeaderValue = HeaderValue::from_static("rejected");

impl Table {
    /// Sets the status of this refusal.
    pub(crate) fn set_status(&self, problem: &mut Problem) {
        if let Some(form) = self.form(problem.code) {
            problem.status = form.status;
        }
    }

    /// The response to a refused call.
    #[cfg(any(feature = "actix", feature = "axum"))]
    pub(crate) fn refusal_of(
        &self,
        error: &idempotent_runtime::Error,
        lang: Lang,
    ) -> Response<Bytes> {
        let mut problem = Problem::from_error(error, lang);
        self.set_status(&mut problem);
        self.refuse(&problem, None)
    }

    /// The response with this problem. `docs` is the page about idempotent requests.
    pub(crate) fn refuse(&self, problem: &Problem, docs: Option<&str>) -> Response<Bytes> {
        let mut response = match self.body_of(problem, docs) {
            None => problem.response(),
            Some(body) => response_with(problem, body.to_string()),
        };
        let headers = response.headers_mut();
        if let Some(retry) = &self.retry {
            let should_retry = problem.client_action == ClientAction::Wait;
            let text = if should_retry { "true" } else { "false" };
            headers.insert(retry, HeaderValue::from_static(text));
        }
        if let Some(result) = &self.result {
            let is_accepted = self.form(problem.code).is_some_and(|form| form.is_accepted);
            headers.insert(result, if is_accepted { ACCEPTED } else { REJECTED });
        }
        response
    }

    /// The body, unless it is a problem.
    fn body_of(&self, problem: &Problem, docs: Option<&str>) -> Option<Value> {
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
        let form = self.form(problem.code);
        let (group, code) = form.map_or((group, problem.code), |form| (form.kind, form.name));
        let message = form.and_then(|form| form.message_in(problem.lang));
        let message = message.unwrap_or(&problem.detail);
        let mut error = json!({"type": group, "code": code, "message": message});
        if let Some(docs) = docs.filter(|_| is_nested) {
            error["doc_url"] = docs.into();
        }
        Some(if is_nested {
            json!({ "error": error })
        } else {
            error
        })
    }
}

impl ProfileForm {
    /// The text for the programmer of the client.
    fn message_in(&self, lang: Lang) -> Option<&'static str> {
        let [en, zh_hans] = self.message?;
        // The program may have a text of its own.
        (!matches!(lang, Lang::Custom(_))).then(|| built_in(lang, en, zh_hans))
    }
}

/// The response with this JSON instead of the problem.
fn response_with(problem: &Problem, body: String) -> Response<Bytes> {
    let mut response = problem.response::<Bytes>();
    *response.body_mut() = body.into();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
