//! The response to a request whose handler does not run.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderValue};
use ::http::{Response, StatusCode};
use bytes::Bytes;
use idempotent_runtime::port::http::{Problem, built_in, grpc, text_of_the_program};
use idempotent_runtime::{ClientAction, Error, Lang};

use crate::context::IdempotencyOutcome;
use crate::page;
use crate::profile::table::Table;
use crate::route::NoRoute;
use crate::scope::MissingScope;

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
        let (title, zh_title) = match no_route {
            NoRoute::Unknown => (
                "The server does not know the route of the request",
                "服务器无法确定该请求的路由",
            ),
            NoRoute::Invalid(_) => (
                "The server cannot use the route of the request",
                "服务器无法使用该请求的路由",
            ),
        };
        let mut rejection = Self::new(error, None, lang);
        let problem = &mut rejection.problem;
        problem.code = no_route.code();
        problem.title = built_in(lang, title, zh_title).into();
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
        let status = match challenge {
            Some(_) => StatusCode::UNAUTHORIZED,
            None => StatusCode::BAD_REQUEST,
        };
        let detail: [Cow<'static, str>; 2] = match missing {
            MissingScope::Header(name) => [
                format!("Send the request again with the header {name}.").into(),
                format!("请携带请求头 {name} 后重新发送").into(),
            ],
            MissingScope::Caller => [
                "Log in, then send the request again.".into(),
                "请登录后重新发送".into(),
            ],
        };
        let title = ["The request names no caller", "请求没有标明调用方"];
        let fault = Self::fault(status, "scope_missing", title, detail, lang);
        Self {
            challenge: challenge.cloned(),
            ..fault
        }
    }

    /// The request has a key, but nothing guards its method and route.
    pub(super) fn unsupported(lang: Lang) -> Self {
        let detail = [
            "This operation does not support repeatable requests. Send the request without the headers that make it repeatable.".into(),
            "该操作不支持可重复请求，请去掉相关请求头后重新发送".into(),
        ];
        let title = [
            "The operation does not support repeatable requests",
            "该操作不支持可重复请求",
        ];
        let status = StatusCode::NOT_IMPLEMENTED;
        Self::fault(status, "repeatability_unsupported", title, detail, lang)
    }

    /// The body has more than `limit` bytes.
    pub(super) fn too_large(limit: usize, lang: Lang) -> Self {
        let detail = [
            format!("The body of this request may have {limit} bytes at most.").into(),
            format!("请求体最多 {limit} 字节").into(),
        ];
        let title = ["The request is too large", "请求体过大"];
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::fault(status, "request_too_large", title, detail, lang)
    }

    /// The body of the request ended with an error. Nothing ran, so the client may send the same request again.
    pub(super) fn broken(lang: Lang) -> Self {
        let detail = [
            "The body of the request did not arrive as a whole. Send the request again.",
            "请求体不完整，请重新发送",
        ];
        let mut fault = Self::unreadable(detail, lang);
        fault.problem.client_action = ClientAction::Wait;
        fault.problem.retry_after = Some(Duration::from_secs(1));
        fault
    }

    /// The body of the request cannot be decoded. Nothing ran, but the same request cannot be decoded, either.
    pub(super) fn undecodable(lang: Lang) -> Self {
        let detail = [
            "The body of the request cannot be decoded: its chunks or its encoding are malformed. Correct the request.",
            "请求体无法解码：分块或编码格式有误。请修正请求",
        ];
        Self::unreadable(detail, lang)
    }

    fn unreadable(detail: [&'static str; 2], lang: Lang) -> Self {
        let title = ["The request cannot be read", "请求无法读取"];
        let (status, detail) = (StatusCode::BAD_REQUEST, detail.map(Cow::Borrowed));
        Self::fault(status, "request_unreadable", title, detail, lang)
    }

    pub(super) fn fault(
        status: StatusCode,
        code: &'static str,
        [title, zh_title]: [&'static str; 2],
        [detail, zh_detail]: [Cow<'static, str>; 2],
        lang: Lang,
    ) -> Self {
        let title = built_in(lang, title, zh_title);
        let detail = match text_of_the_program(lang, code) {
            Some(text) => text.into(),
            None => built_in(lang, detail, zh_detail),
        };
        Self::from(Problem {
            status,
            code,
            title: title.into(),
            detail,
            lang,
            client_action: ClientAction::Fix,
            silent: false,
            retry_after: None,
        })
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
