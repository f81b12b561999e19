//! Answers without a network, so that the clock can be paused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderValue};
use idempotence_client::IdempotentRequests;
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next, Result};
use tokio::time::Instant;

pub(crate) const URL: &str = "http://shop.example/orders";

/// What the server does with one try.
pub(crate) enum Step {
    Answer(http::Response<Body>),
    /// The connection breaks off.
    Lost,
    /// Another middleware fails.
    Failure,
    /// No answer comes.
    Silence,
}

/// A try that the server has received.
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) headers: HeaderMap,
}

/// The innermost middleware. After its steps it answers 200.
#[derive(Clone, Default)]
pub(crate) struct Script {
    steps: Arc<Mutex<VecDeque<Step>>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            received: Arc::default(),
        }
    }

    /// A client with this middleware before the script.
    pub(crate) fn client(&self, requests: IdempotentRequests) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::new())
            .with(requests)
            .with(self.clone())
            .build()
    }

    pub(crate) fn tries(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// The keys of all tries.
    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        self.header("idempotency-key")
    }

    /// This header of all tries.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        let received = self.received.lock().unwrap();
        let values = received.iter().map(|received| received.headers.get(name));
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        values.map(|value| value.map(text)).collect()
    }

    /// The times between the tries, in seconds.
    pub(crate) fn pauses(&self) -> Vec<f64> {
        let received = self.received.lock().unwrap();
        let pairs = received.windows(2);
        pairs
            .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
            .collect()
    }
}

#[async_trait]
impl Middleware for Script {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        self.received.lock().unwrap().push(Received {
            at: Instant::now(),
            headers: request.headers().clone(),
        });
        let step = self.steps.lock().unwrap().pop_front();
        match step {
            None => Ok(from_server(
                http::Response::new(Body::from("done")),
                &request,
            )),
            Some(Step::Answer(answer)) => Ok(from_server(answer, &request)),
            Some(Step::Failure) => Err(Error::middleware(std::fmt::Error)),
            Some(Step::Silence) => std::future::pending().await,
            Some(Step::Lost) => {
                // Only reqwest makes its errors.
                let refusal = http::Response::builder().status(500).body("").unwrap();
                Err(Response::from(refusal)
                    .error_for_status()
                    .unwrap_err()
                    .into())
            }
        }
    }
}

/// The answer of the server of the request: it has the URL of the request, as each answer of reqwest.
fn from_server(mut answer: http::Response<Body>, request: &Request) -> Response {
    let mut made = http::Response::builder().url(request.url().clone());
    if let Some(extensions) = made.extensions_mut() {
        // A step may have another URL.
        extensions.extend(std::mem::take(answer.extensions_mut()));
        *answer.extensions_mut() = std::mem::take(extensions);
    }
    Response::from(answer)
}

/// All requests to the host of the script.
pub(crate) fn requests() -> IdempotentRequests {
    IdempotentRequests::to_hosts(["shop.example"])
}

/// An answer with these headers.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Step {
    let mut answer = http::Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    Step::Answer(answer.body(Body::from(body.to_owned())).unwrap())
}

/// A refusal of a server of the crate `idempotence`.
pub(crate) fn problem(status: u16, code: &str, action: &str) -> Step {
    let body = format!(
        r#"{{"type":"urn:idempotence:{code}","code":"{code}","client_action":"{action}","detail":"Words."}}"#
    );
    answer(
        status,
        &[("content-type", "application/problem+json")],
        &body,
    )
}
