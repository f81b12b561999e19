//! Sends one request until it has an answer.

use std::time::Duration;

use http::{Extensions, HeaderName};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Next, Result};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use crate::advice::{self, Advice};
use crate::answer::Answer;
use crate::backoff::Backoff;
use crate::body;
use crate::key::OutgoingKey;
use crate::problem::{self, Problem};
use crate::unanswered::{Failure, Unanswered};

/// How one request is sent.
#[derive(Debug, Clone)]
pub(crate) struct RetryPolicy {
    /// The header of a replay.
    pub(crate) replay: Option<HeaderName>,
    /// An answer with one of these statuses is no replay.
    pub(crate) never_stored: &'static [u16],
    /// The longest body of an answer that is read before the caller gets the response, in bytes.
    pub(crate) response_limit: usize,
    /// `None` if another middleware repeats requests.
    pub(crate) limits: Option<RetryLimits>,
}

/// A try with less time than this would only lose the last answer.
const SHORTEST_TRY: Duration = Duration::from_secs(1);

/// How long a request is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryLimits {
    /// The time of all tries and pauses.
    pub(crate) deadline: Duration,
    pub(crate) try_timeout: Duration,
    pub(crate) backoff: Backoff,
}

impl RetryLimits {
    /// Whether enough of the remaining time is left for a try after this pause.
    fn has_time_after(&self, pause: Duration, remaining: Duration) -> bool {
        let shortest = SHORTEST_TRY.min(self.try_timeout).min(self.deadline / 10);
        let rest = remaining.checked_sub(pause);
        rest.is_some_and(|rest| rest > shortest)
    }
}

impl RetryPolicy {
    pub(crate) async fn send(
        &self,
        key: OutgoingKey,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if let Some(limits) = self.limits {
            return self.repeat(limits, key, request, extensions, next).await;
        }
        let (response, _) = self.once(&key, 1, request, extensions, next).await?;
        Ok(response)
    }

    /// Sends the request until its answer is final, or the deadline leaves no time for another one.
    async fn repeat(
        &self,
        limits: RetryLimits,
        key: OutgoingKey,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let (method, server) = (request.method().clone(), request.url().origin());
        let end = Instant::now().checked_add(limits.deadline);
        let mut tries = 0;
        loop {
            let again = request.try_clone();
            let is_repeatable = again.is_some();
            tries += 1;
            let once = self.once(&key, tries, request, extensions, next.clone());
            let result = timeout(limits.try_timeout.min(remaining(end)), once).await;
            let (outcome, advice) = judge(result);
            if let (Some(again), Advice::Repeat(named)) = (again, advice) {
                let pause = limits.backoff.pause(tries, named);
                if limits.has_time_after(pause, remaining(end)) {
                    drop(outcome);
                    sleep(pause).await;
                    request = again;
                    continue;
                }
            }
            return outcome.map_err(|last| {
                Error::middleware(Unanswered {
                    key,
                    method,
                    server: server.ascii_serialization(),
                    tries,
                    is_repeatable,
                    last,
                })
            });
        }
    }

    /// Sends the request once.
    async fn once(
        &self,
        key: &OutgoingKey,
        tries: u32,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<(Response, Advice)> {
        let server = request.url().origin();
        let response = next.run(request, extensions).await?;
        // After a redirect the answer may be of another server, which does not know what the first one has done.
        let is_of_server = response.url().origin() == server;
        let status = response.status();
        let is_refusal = status.is_client_error() || status.is_server_error();
        let limit = if is_refusal {
            self.response_limit.max(problem::LONGEST)
        } else {
            self.response_limit
        };
        let mut response = body::read(response, limit).await?;
        let headers = response.headers();
        let problem = if is_refusal {
            Problem::read(headers, response.body())
        } else {
            None
        };
        let mark = self.replay.as_ref().and_then(|name| headers.get(name));
        let is_replay = mark.is_some_and(|mark| mark.as_bytes().eq_ignore_ascii_case(b"true"))
            && !self.never_stored.contains(&status.as_u16());
        let advice = Advice::of(status, headers, is_replay, problem.as_ref());
        let answer = Answer {
            key: key.clone(),
            tries,
            is_replay,
            ends_key: is_of_server && advice::ends_key(status, is_replay, problem.as_ref()),
            retry_after: advice::retry_after(headers, problem.as_ref()),
            problem,
        };
        response.extensions_mut().insert(answer);
        Ok((body::whole(response), advice))
    }
}

/// The outcome of one try, and what to do after it.
fn judge(
    result: std::result::Result<Result<(Response, Advice)>, Elapsed>,
) -> (std::result::Result<Response, Failure>, Advice) {
    match result {
        Ok(Ok((response, advice))) => (Ok(response), advice),
        Ok(Err(error)) => {
            let advice = Advice::after(&error);
            (Err(Failure::of(error)), advice)
        }
        Err(_) => (Err(Failure::TimedOut), Advice::Repeat(None)),
    }
}

fn remaining(end: Option<Instant>) -> Duration {
    end.map_or(Duration::MAX, |end| {
        end.saturating_duration_since(Instant::now())
    })
}
