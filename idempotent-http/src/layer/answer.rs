//! The response to a guarded request, and what is stored of it.

use std::sync::OnceLock;

use ::http::header::{self, HeaderName, HeaderValue};
use ::http::{Response, StatusCode, response};
use bytes::Bytes;
use http_body::Body;
use idempotent_runtime::port::http::{
    BodyOutcome, Form, Kept, LONGEST_HEAD, ReplayMode, ResultOptions, SettleOutcome, Stored,
    time_of_day,
};

use crate::body::{self, ReplayBody};
use crate::context::IdempotencyOutcome;
use crate::layer::grpc;
use crate::layer::options::RouteOptions;
use crate::profile::table::Table;
use crate::response::decision::Decision;
use crate::response::stored;

/// What decides about a response.
#[derive(Clone, Copy)]
pub(crate) enum Rules {
    /// The status of HTTP, as the convention says.
    Http(&'static Table),
    /// The status of gRPC.
    Grpc,
}

/// The headers that the layer adds to an answer.
pub(crate) struct Marks<'a> {
    /// The header of a replay.
    pub(crate) replay: Option<&'a HeaderName>,
    /// The header that says whether a client should send the request again.
    pub(crate) retry: Option<&'a HeaderName>,
}

/// The response to a guarded request, and what is stored of it.
pub(crate) struct Answer<B: Body> {
    response: Response<ReplayBody<B>>,
    outcome: IdempotencyOutcome,
    decision: Decision,
    is_stream: bool,
    /// What is stored, if the decision is to store.
    record: Option<Stored>,
}

impl<B: Body<Data = Bytes>> Answer<B> {
    /// Decides about the response of the handler. If it is to be stored, reads its body into memory.
    pub(crate) async fn of(
        response: Response<ReplayBody<B>>,
        options: &RouteOptions,
        rules: Rules,
        results: ResultOptions,
    ) -> Self {
        let (mut head, body) = response.into_parts();
        let is_stream = options.streams(&head.headers);
        let decision = match rules {
            Rules::Http(table) => Some(Decision::about(&head, options.store_if.as_ref(), table)),
            // The status is in the trailers.
            Rules::Grpc => None,
        };
        let may_be_stored = matches!(decision, Some(Decision::Store) | None);
        let body = match body.into_inner() {
            Ok(body) if may_be_stored && !is_stream => {
                body::buffer(body, options.response_limit).await
            }
            Ok(body) => ReplayBody::inner(body),
            Err(whole) => whole,
        };
        let decision = decision.unwrap_or_else(|| {
            let whole = body.in_memory();
            let trailers = whole.and_then(|(_, trailers)| trailers);
            grpc::decide(&mut head, trailers, whole.is_some())
        });
        let is_stored = decision == Decision::Store;
        let record = is_stored.then(|| record(&head, &body, options, results));
        let outcome = match (decision, &record) {
            (_, Some(stored)) if stored.form == Form::HttpTombstone => {
                IdempotencyOutcome::Tombstone
            }
            (Decision::Store, _) => IdempotencyOutcome::Stored,
            (Decision::Release, _) => IdempotencyOutcome::Released,
            (Decision::Hold, _) => IdempotencyOutcome::Held,
        };
        Self {
            response: Response::from_parts(head, body),
            outcome,
            decision,
            is_stream,
            record,
        }
    }
}

impl<B: Body> Answer<B> {
    /// Notes that the handler ran without a claim.
    pub(crate) fn set_unguarded(&mut self) {
        self.outcome = IdempotencyOutcome::Unguarded;
    }

    /// Notes whether the end of the call is in the store. The end of an unguarded handler is in no store.
    pub(crate) fn settled(&mut self, settled: SettleOutcome) {
        match settled {
            _ if self.outcome == IdempotencyOutcome::Unguarded => {}
            SettleOutcome::Stored => {}
            SettleOutcome::Open => self.outcome = IdempotencyOutcome::Unconfirmed,
            SettleOutcome::Closed => self.outcome = IdempotencyOutcome::Unrecorded,
        }
    }

    pub(crate) fn decision(&self) -> Decision {
        self.decision
    }

    /// How the handler ended. Takes what is stored of the response.
    pub(crate) fn take_outcome(&mut self) -> BodyOutcome {
        let record = self.record.take();
        self.outcome_with(record)
    }

    fn outcome_with(&self, record: Option<Stored>) -> BodyOutcome {
        let kept = record.map_or(Kept::Nothing, Kept::Result);
        BodyOutcome::new(self.decision == Decision::Store, kept).chosen(self.is_stream)
    }

    /// The response. A replay of this layer or of an inner layer has the header of a replay. No other response has it: a handler
    /// may have forwarded the mark of another server.
    pub(crate) fn into_response(self, marks: &Marks<'_>) -> Response<ReplayBody<B>> {
        let is_taken = self.is_taken();
        let mut response = self.response;
        let inner = response.extensions_mut().insert(self.outcome);
        let is_replay = |outcome| matches!(outcome, IdempotencyOutcome::Replayed { .. });
        match marks.replay {
            Some(marker) if is_replay(self.outcome) => {
                let headers = response.headers_mut();
                headers.insert(marker, HeaderValue::from_static("true"));
            }
            Some(marker) if !inner.is_some_and(is_replay) => {
                response.headers_mut().remove(marker);
            }
            _ => {}
        }
        let status = response.status();
        if let Some(retry) = marks.retry
            && (status.is_server_error() || status == StatusCode::CONFLICT)
            && is_taken
        {
            let headers = response.headers_mut();
            headers.insert(retry, HeaderValue::from_static("false"));
        }
        response
    }

    /// Whether the key stays taken, so that another try of the client gets the same response, or a refusal.
    fn is_taken(&self) -> bool {
        match self.outcome {
            IdempotencyOutcome::Stored
            | IdempotencyOutcome::Tombstone
            | IdempotencyOutcome::Held
            | IdempotencyOutcome::Replayed { .. } => true,
            // The store may still get the record.
            IdempotencyOutcome::Unconfirmed => self.decision != Decision::Release,
            IdempotencyOutcome::Unguarded
            | IdempotencyOutcome::Unrecorded
            | IdempotencyOutcome::Released
            | IdempotencyOutcome::Refused => false,
        }
    }

    /// The answer to a duplicate.
    fn replayed(stored: &Stored) -> Option<Self> {
        let stored = stored::read(stored)?;
        let body = ReplayBody::whole(stored.body, stored.trailers);
        let mut response = Response::new(body);
        *response.status_mut() = stored.status;
        *response.headers_mut() = stored.headers;
        Some(Self {
            response,
            outcome: IdempotencyOutcome::Replayed {
                first: stored.first,
            },
            decision: Decision::Store,
            is_stream: false,
            record: None,
        })
    }
}

/// What is stored: the whole response, or a tombstone if its status is an interim one, or its body is not in memory or too large
/// for the handle.
fn record<B: Body>(
    head: &response::Parts,
    body: &ReplayBody<B>,
    options: &RouteOptions,
    results: ResultOptions,
) -> Stored {
    let now = time_of_day();
    let fits = |stored: &Stored| stored.bytes.len() <= LONGEST_HEAD;
    let whole = body
        .in_memory()
        .filter(|(body, _)| body.len() <= results.max_bytes && stored::is_storable(head.status))
        .and_then(|content| {
            let allowed = options.kept_headers.as_deref();
            let stored = stored::write(head, content, allowed, now);
            fits(&stored).then_some(stored)
        });
    whole.unwrap_or_else(|| {
        let is_kept = options
            .kept_headers
            .as_deref()
            .is_none_or(|allowed| allowed.contains(&header::LOCATION));
        let location = head.headers.get(header::LOCATION).filter(|_| is_kept);
        let tombstone = stored::write_tombstone(location, now);
        if fits(&tombstone) {
            tombstone
        } else {
            stored::write_tombstone(None, now)
        }
    })
}

/// How a duplicate reads the stored response. `location` gets the `Location` of a tombstone.
#[derive(Clone, Copy)]
pub(crate) struct WholeResponse<'a> {
    pub(crate) location: &'a OnceLock<HeaderValue>,
}

impl<B: Body> ReplayMode<Answer<B>> for WholeResponse<'_> {
    fn body_outcome(self, outcome: &Answer<B>, _: bool, _: ResultOptions) -> BodyOutcome {
        outcome.outcome_with(outcome.record.clone())
    }

    fn replay(self, stored: &Stored) -> Option<Result<Answer<B>, &'static str>> {
        if stored.form == Form::HttpTombstone {
            if let Some(location) = stored::location(stored) {
                // Each duplicate reads the result once.
                let _ = self.location.set(location);
            }
            return Some(Err("it was a stream, was too large, or broke off"));
        }
        let read = Answer::replayed(stored);
        Some(read.ok_or("it was stored by a later version, or forged"))
    }
}
