//! What an answer means: whether the same request may be sent again, and whether its key has done its work.
//!
//! The script for browsers in `examples/front_end.js` has the same rules.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use reqwest_middleware::Error;

use crate::problem::{ClientAction, Problem};
use crate::profile::LATER;

/// What to do after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    /// The caller gets the answer.
    Final,
    /// The same request is sent again with its key, not before this time has passed.
    Repeat(Option<Duration>),
}

/// These refusals do not say whether the work is done, or whether an earlier try with the key has done it.
const UNKNOWN: [&str; 3] = ["lease_lost", "outcome_unknown", "taken"];

/// These refusals are about this try. An earlier try may have passed and done the work: its session was valid, its window open, or
/// its payload the first one.
const OF_THIS_TRY: [&str; 3] = [
    "first_sent_outside_window",
    "payload_mismatch",
    "scope_missing",
];

impl Advice {
    /// The advice of an answer.
    pub(crate) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        is_replay: bool,
        problem: Option<&Problem>,
    ) -> Self {
        let repeat = || Self::Repeat(retry_after(headers, problem));
        // The server stores a replay, so each repetition gets the same.
        if is_replay || status.is_success() {
            return Self::Final;
        }
        match problem.and_then(Problem::client_action) {
            Some(ClientAction::Wait) => return repeat(),
            Some(_) => return Self::Final,
            None => {}
        }
        let is_running =
            status == StatusCode::CONFLICT && headers.contains_key(header::RETRY_AFTER);
        let is_asked_for = match headers.get("stripe-should-retry") {
            Some(should_retry) => should_retry == "true",
            None => is_running || LATER.contains(&status.as_u16()),
        };
        if is_asked_for { repeat() } else { Self::Final }
    }

    /// The advice of an error.
    pub(crate) fn after(error: &Error) -> Self {
        match error {
            // A URL or a redirect that reqwest cannot follow: another try ends in the same way.
            Error::Reqwest(error) if error.is_builder() || error.is_redirect() => Self::Final,
            Error::Reqwest(_) => Self::Repeat(None),
            // Another middleware has decided.
            Error::Middleware(_) => Self::Final,
        }
    }
}

/// Whether the outcome of the key is known, so that the next intention needs a new key.
pub(crate) fn ends_key(status: StatusCode, is_replay: bool, problem: Option<&Problem>) -> bool {
    if status.is_success() {
        return true;
    }
    // Only a redirect of the work itself: another may be to a page for signing in, although an earlier try has done the work.
    if status.is_redirection() {
        return is_replay || status == StatusCode::SEE_OTHER;
    }
    // A stored failure of the server may be a charged card.
    if is_replay {
        return !status.is_server_error();
    }
    let Some((action, code)) =
        problem.and_then(|problem| Some((problem.client_action()?, problem.code())))
    else {
        return false;
    };
    let is_one_of = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    match action {
        ClientAction::Wait | ClientAction::NewToken => false,
        ClientAction::Fix => !status.is_server_error() && !is_one_of(&OF_THIS_TRY),
        ClientAction::Ignore | ClientAction::Refresh => !is_one_of(&UNKNOWN),
    }
}

/// The time that a problem or the header `Retry-After` asks for. The problem has milliseconds.
pub(crate) fn retry_after(headers: &HeaderMap, problem: Option<&Problem>) -> Option<Duration> {
    let named = problem.and_then(Problem::retry_after);
    named.or_else(|| read_retry_after(headers))
}

/// The header has seconds, or a date.
fn read_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    // The clock of the server, so that the clock of the client may be wrong.
    let date = headers
        .get(header::DATE)
        .and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
}
