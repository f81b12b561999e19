//! Requests to the layer of HTTP whose futures are dropped after every poll, as when a client hangs up.

use std::convert::Infallible;
use std::future::Future;
use std::panic::resume_unwind;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use idempotence::http::{Decision, IdempotencyLayer, ReplayBody};
use idempotent_runtime::Policy;
use tokio::time::{Instant, advance, timeout};
use tower::{ServiceExt as _, service_fn};
use tower_layer::Layer as _;

use super::case::{Progress, Stage, nothing_holds, with_context};
use super::leftover::{LEASE, Leftover, TTL};
use super::polled::Polled;
use super::slow::Slow;
use crate::protocol::guarded::{Guarded, millis, secs, yielding};

/// How the handler of the first request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stored,
    Tombstone,
    Released,
    Held,
    /// An error of the service instead of a response.
    Error,
    Panic,
}

/// What a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The response of its own handler.
    Own,
    /// The stored response of the first request.
    Replay,
    /// A refusal with this code.
    Refused(String),
    /// The error of its service.
    Error,
}

/// The error of a service.
#[derive(Debug)]
struct Broken;

/// What a handler returns.
type Handled = Result<Response<Body>, Broken>;

/// Longer than any key stays taken by a claim.
const WAIT: Duration = secs(1000);
/// The longest pause of a request that waits for another process.
const PAUSE: Duration = millis(750);

impl End {
    const ALL: [Self; 6] = [
        Self::Stored,
        Self::Tombstone,
        Self::Released,
        Self::Held,
        Self::Error,
        Self::Panic,
    ];

    /// The record after a request that was dropped in this stage. The handler continues without its client.
    fn leaves(self, stage: Stage) -> Leftover {
        match (stage, self) {
            (Stage::Claiming, _) | (_, Self::Released) => Leftover::Nothing,
            (_, Self::Stored | Self::Tombstone) => Leftover::Done(TTL),
            (_, Self::Held | Self::Error | Self::Panic) => Leftover::LEASED,
        }
    }

    /// What an equal request gets while this record is stored.
    fn answer(self, leftover: Leftover) -> Answer {
        match leftover {
            Leftover::Nothing => Answer::Own,
            // The layer marks the claim of a handler that ended without a known outcome.
            Leftover::Claim(_) => Answer::Refused("outcome_unknown".to_owned()),
            Leftover::Done(_) if self == Self::Tombstone => {
                Answer::Refused("result_unavailable".to_owned())
            }
            Leftover::Done(_) => Answer::Replay,
        }
    }

    /// The handler of the first request.
    fn handler(
        self,
        progress: &Progress,
    ) -> impl Fn() -> BoxFuture<'static, Handled> + Clone + Send + 'static {
        let progress = progress.clone();
        move || Box::pin(self.handle(progress.clone()))
    }

    /// The response of the first request. It is pending a few times, and so is its body.
    async fn handle(self, progress: Progress) -> Handled {
        progress.reach(Stage::InTheBody);
        yielding(()).await;
        progress.reach(Stage::AfterTheBody);
        let body = stream::once(yielding(Ok::<_, Infallible>(Bytes::from("first"))));
        let mut response = Response::new(Body::from_stream(body));
        match self {
            Self::Stored => {}
            Self::Tombstone => {
                let events = "text/event-stream".parse().unwrap();
                response.headers_mut().insert(CONTENT_TYPE, events);
            }
            Self::Released => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
            Self::Held => drop(response.extensions_mut().insert(Decision::Hold)),
            Self::Error => return Err(Broken),
            // `panic!` would print hundreds of messages.
            Self::Panic => resume_unwind(Box::new("in the handler")),
        }
        Ok(response)
    }
}

/// The handler of another request. It frees the key.
async fn own() -> Handled {
    let mut response = Response::new(Body::from("own"));
    response.extensions_mut().insert(Decision::Release);
    Ok(response)
}

fn guarded() -> Guarded {
    Guarded::on(Slow::default(), Policy::new(TTL))
}

/// The key that the layer makes of its scope and of the key of the client.
fn key(guarded: &Guarded) -> String {
    guarded.key_of(&("global", "a"))
}

/// Sends a request with the key `a` through the layer to this handler.
fn send<F>(
    guarded: &Guarded,
    wait: Duration,
    handler: impl Fn() -> F + Clone + Send + 'static,
) -> impl Future<Output = Answer> + Send + 'static
where
    F: Future<Output = Handled> + Send + 'static,
{
    let layer = IdempotencyLayer::builder(&guarded.idempotency)
        .global_scope()
        .route(guarded.endpoint)
        .ttl(TTL)
        .lease(LEASE)
        .wait(wait)
        .build();
    let handler = service_fn(move |_: Request<ReplayBody<Body>>| handler());
    let request = Request::post("/").header("idempotency-key", "a");
    let request = request.body(Body::empty()).unwrap();
    async move {
        let Ok(response) = layer.layer(handler).oneshot(request).await else {
            return Answer::Error;
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        if head.headers.contains_key("idempotency-replayed") {
            assert_eq!(body, "first");
            return Answer::Replay;
        }
        match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(problem) => Answer::Refused(problem["code"].as_str().unwrap().to_owned()),
            Err(_) => Answer::Own,
        }
    }
}

async fn assert_answer(end: End, guarded: &Guarded, leftover: Leftover) {
    let answer = send(guarded, Duration::ZERO, own).await;
    assert_eq!(answer, end.answer(leftover));
    guarded.settled().await;
}

/// Drops the first request after `polls` polls. Returns the stage and whether the request had ended before.
async fn dropped_after(end: End, polls: usize) -> (Stage, bool) {
    let guarded = guarded();
    let progress = Progress::default();
    let first = send(&guarded, Duration::ZERO, end.handler(&progress));
    let mut first = Polled::new(first);
    let ended = first.poll_times(polls).await;
    let leftover = end.leaves(progress.stage());
    let stage = progress.stage();
    let dropped = first.drop();
    guarded.settled().await;
    assert!(
        !dropped.has_waker(),
        "something still has the waker of the dropped request"
    );
    assert_eq!(Leftover::under(&guarded, &key(&guarded)).await, leftover);

    let elsewhere = guarded.elsewhere();
    assert_answer(end, &guarded, leftover).await;
    assert_answer(end, &elsewhere, leftover).await;
    if let Some(remaining) = leftover.remaining() {
        advance(remaining.saturating_sub(millis(1))).await;
        assert_answer(end, &elsewhere, leftover).await;
        advance(millis(1)).await;
    }
    assert_answer(end, &elsewhere, Leftover::Nothing).await;
    drop(elsewhere);
    nothing_holds(guarded, 0);
    (stage, ended)
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_after_any_poll_leaves_what_the_end_of_its_handler_says() {
    for end in End::ALL {
        let mut seen = Vec::new();
        for polls in 0.. {
            let what = format!("dropped after {polls} polls: {end:?}");
            let (stage, ended) = with_context(what, dropped_after(end, polls)).await;
            seen.push(stage);
            if ended {
                break;
            }
        }
        for stage in Stage::ALL {
            assert!(seen.contains(&stage), "{end:?} was never dropped {stage:?}");
        }
    }
}

/// Drops the first request after `polls` polls. An equal request starts after `made` of these polls, waits, and is then polled
/// alternately. Returns whether the first request had ended before.
async fn dropped_with_second(end: End, is_elsewhere: bool, made: usize, polls: usize) -> bool {
    let guarded = guarded();
    let other = if is_elsewhere {
        guarded.elsewhere()
    } else {
        guarded.clone()
    };
    let progress = Progress::default();
    let first = send(&guarded, Duration::ZERO, end.handler(&progress));
    let mut first = Polled::new(first);
    let mut second = Polled::new(send(&other, WAIT, own));
    let mut ended = first.poll_times(made).await;
    for _ in made..polls {
        second.poll().await;
        ended = first.poll().await;
    }
    let stage = progress.stage();
    first.drop();

    let dropped = Instant::now();
    let answer = timeout(2 * WAIT, second.finish()).await.expect("an answer");
    let waited = dropped.elapsed();
    assert_eq!(answer, end.answer(end.leaves(stage)));
    // The handlers and their bodies are pending, but take no time.
    assert!(waited <= PAUSE, "{waited:?}");
    guarded.settled().await;
    other.settled().await;
    drop(other);
    nothing_holds(guarded, 0);
    ended
}

#[tokio::test(start_paused = true)]
async fn after_a_drop_at_any_poll_a_waiting_request_gets_what_the_end_of_the_handler_says() {
    for end in End::ALL {
        for is_elsewhere in [false, true] {
            for polls in 1.. {
                let mut ended = false;
                for made in 0..=polls {
                    let what = format!(
                        "elsewhere {is_elsewhere}, after {made}, dropped after {polls} polls: {end:?}"
                    );
                    let test = dropped_with_second(end, is_elsewhere, made, polls);
                    ended = with_context(what, test).await;
                }
                if ended {
                    break;
                }
            }
        }
    }
}
