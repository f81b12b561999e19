//! Why a server refused a request.

use std::time::Duration;

use http::{HeaderMap, header};
use serde_json::Value;

use crate::body::ReadBody;

/// Why a server refused a request: the body of its answer, if it is a problem of RFC 9457 (`application/problem+json`) or similar
/// JSON. [`Answer::problem`](crate::Answer::problem) returns it.
///
/// The convention of Stripe (`{"error": {"type", "code", "message"}}`) and the Agentic Commerce Protocol
/// (`{"type", "code", "message"}`) are read, too. The response still has its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: Option<String>,
    code: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    client_action: Option<ClientAction>,
    is_silent: bool,
    retry_after: Option<Duration>,
}

/// What a server of the crate `idempotence` advises: the member `client_action` of the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAction {
    /// Correct the request, or the server. The same request does not help.
    Fix,
    /// Send the same request later. The middleware has done so, until its deadline.
    Wait,
    /// Do nothing: an equal request has done the work.
    Ignore,
    /// Load the current state first, because the answer does not contain the outcome.
    Refresh,
    /// Fetch a new one-time token.
    NewToken,
}

/// The longest body that is read as a problem, in bytes.
pub(crate) const LONGEST: usize = 64 * 1024;

impl Problem {
    /// The member `type`: a URI that names the kind of the problem, such as `urn:idempotence:payload_mismatch`.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The member `code`, such as `in_progress`, `payload_mismatch` or `outcome_unknown`.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The member `title`: what has happened, for the log.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The member `detail` (or `message`): a sentence for the person, in the language of `Accept-Language`.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The member `client_action`. `None` if the server does not use the crate `idempotence`, or the handler made the problem.
    pub fn client_action(&self) -> Option<ClientAction> {
        self.client_action
    }

    /// Whether a person should see no message, because an earlier request of the same person does the work.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// How long the client should wait: the member `retry_after_ms`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Reads the body of a refusal.
    pub(crate) fn read(headers: &HeaderMap, body: &ReadBody) -> Option<Self> {
        if !is_json(headers) {
            return None;
        }
        let body = body.to_bytes().filter(|body| body.len() <= LONGEST)?;
        let whole: Value = serde_json::from_slice(&body).ok()?;
        let members = match &whole["error"] {
            error @ Value::Object(_) => error,
            _ if whole.is_object() => &whole,
            _ => return None,
        };
        let text = |name: &str| members[name].as_str().map(str::to_owned);
        let action = members["client_action"].as_str();
        Some(Self {
            kind: text("type"),
            code: text("code"),
            title: text("title"),
            detail: text("detail").or_else(|| text("message")),
            client_action: action.and_then(ClientAction::named),
            is_silent: members["silent"].as_bool().unwrap_or_default(),
            retry_after: members["retry_after_ms"]
                .as_u64()
                .map(Duration::from_millis),
        })
    }
}

impl ClientAction {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "fix" => Self::Fix,
            "wait" => Self::Wait,
            "ignore" => Self::Ignore,
            "refresh" => Self::Refresh,
            "new_token" => Self::NewToken,
            _ => return None,
        })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let Some(text) = value.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || essence.starts_with("application/") && essence.ends_with("+json")
}
