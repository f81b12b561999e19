//! The response to a request whose handler does not run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderValue};
use ::http::{Response, StatusCode};
use bytes::Bytes;
use idempotent_runtime::port::http::{Problem, grpc, text_of_the_program};
use idempotent_runtime::{ClientAction, Error, Lang};

use crate::catalog;
use crate::context::IdempotencyOutcome;
use crate::page;
use crate::profile::table::Table;
use crate::request::route::NoRoute;
use crate::request::scope::MissingScope;

/// Why the layer did not run the handler, or why a call inside of the handler was refused, for [`on_reject`](crate::LayerBuilder::on_reject).
pub struct Rejection {
    problem: Box<Problem>,
    error: Option<Arc<Error>>,
    /// The `Location` of the first response.
    location: Option<HeaderValue>,
    /// The header `WWW-Authenticate`.
    challenge: Option<HeaderValue>,
}

impl Rejection {
    /// The stable name of the reason, as in the member `code` of the problem.
    pub fn code(&self) -> &'static str {
        self.problem.code
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.problem.status
    }

    /// What the client should do.
    pub fn client_action(&self) -> ClientAction {
        self.problem.client_action
    }

    /// The language of the texts.
    pub fn lang(&self) -> Lang {
        self.problem.lang
    }

    /// How long the client should wait. `None` unless the advice is to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem.retry_after
    }

    /// The text for the user.
    pub fn detail(&self) -> &str {
        &self.problem.detail
    }

    /// The error of the refused call. `None` if the request was refused before a call was made.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_deref()
    }

    /// The refusal of a call.
    pub(super) fn new(error: Error, location: Option<HeaderValue>, lang: Lang) -> Self {
        Self {
            problem: Box::new(Problem::from_error(&error, lang)),
            error: Some(Arc::new(error)),
            location,
            challenge: None,
        }
    }

    /// The refusal of a call inside of a handler. The error is missing if the handler has kept it.
    pub(super) fn inside(problem: Problem, error: Option<Arc<Error>>) -> Self {
        Self {
            error,
            ..Self::from(problem)
        }
    }

    /// The request has no route that can be an endpoint.
    pub(super) fn without_route(error: Error, no_route: &NoRoute, lang: Lang) -> Self {
        let row = no_route.row();
        let mut rejection = Self::new(error, None, lang);
        let problem = &mut rejection.problem;
        problem.code = row.code;
        problem.title = row.title(lang).into();
        if let Some(text) = text_of_the_program(lang, problem.code) {
            problem.detail = text.into();
        }
        rejection
    }

    /// The request has no scope: 401 if it is not authenticated and there is a challenge, else 400. A 401 without a challenge
    /// is not allowed: RFC 9110, section 15.5.2.
    pub(super) fn without_scope(
        missing: &MissingScope,
        challenge: Option<&HeaderValue>,
        lang: Lang,
    ) -> Self {
        let challenge = challenge.filter(|_| missing.is_authentication());
        let mut problem = match missing {
            MissingScope::Header(name) => {
                catalog::SCOPE_HEADER_MISSING.problem(name.as_str(), lang)
            }
            MissingScope::Caller => catalog::CALLER_MISSING.problem("", lang),
        };
        if challenge.is_some() {
            problem.status = StatusCode::UNAUTHORIZED;
        }
        Self {
            challenge: challenge.cloned(),
            ..Self::from(problem)
        }
    }

    /// Names the refusal as the convention does.
    pub(super) fn name_by(&mut self, table: &Table) {
        table.set_status(&mut self.problem);
    }

    /// The response with the problem, in the form of the convention.
    pub(super) fn response(&self, table: &Table, docs: Option<&str>) -> Response<Bytes> {
        let mut response = table.refuse(&self.problem, docs);
        let headers = response.headers_mut();
        if let Some(location) = &self.location {
            headers.insert(header::LOCATION, location.clone());
        }
        if let Some(challenge) = &self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
        }
        let link = docs.map(|docs| HeaderValue::try_from(format!("<{docs}>; rel=\"describedby\"")));
        if let Some(Ok(link)) = link {
            headers.insert(header::LINK, link);
        }
        response
    }

    /// Makes a page of the response.
    pub(super) fn set_page(&self, response: &mut Response<Bytes>) {
        page::set_page(&self.problem, response);
    }

    /// The response of gRPC.
    pub(super) fn grpc_response(&self) -> Response<Bytes> {
        grpc::response(&self.problem, self.error())
    }

    /// Adds the extensions of a refused request.
    pub(super) fn mark<B>(self, response: &mut Response<B>) {
        let extensions = response.extensions_mut();
        extensions.insert(IdempotencyOutcome::Refused);
        if let Some(error) = self.error {
            extensions.insert(error);
        }
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            error: None,
            location: None,
            challenge: None,
        }
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("code", &self.code())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
