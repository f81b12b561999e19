//! Sends requests: not faster than the limit, and each once.

use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{RequestBuilder, redirect, retry};
use tokio::time::{sleep, timeout};

use super::convention::Convention;
use super::scenario::{LONG, SentKey, Shape};
use super::seen::Reply;
use super::target::Target;
use crate::args::Probe;
use crate::exit::{Failure, with_causes};

pub(crate) struct Client<'a> {
    pub(crate) http: reqwest::Client,
    target: &'a Target,
    convention: Convention,
    /// Whether keys are written in quotes.
    pub(crate) quotes: bool,
    /// The time between two requests.
    interval: Duration,
    next: Instant,
    pub(crate) sent: usize,
}

/// The key of a scenario, and the date of its first request.
pub(crate) struct OwnKey {
    key: String,
    first_sent: String,
}

impl OwnKey {
    pub(crate) fn new() -> Self {
        Self {
            key: uuid(),
            first_sent: httpdate::fmt_http_date(SystemTime::now()),
        }
    }
}

impl<'a> Client<'a> {
    pub(crate) fn new(args: &Probe, target: &'a Target) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .timeout(args.timeout)
            .user_agent(concat!("idempotence-probe/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            http: http.map_err(|error| Failure::runtime(with_causes(&error)))?,
            target,
            convention: args.profile,
            quotes: args.profile.is_quoted(),
            interval: Duration::from_secs(1) / u32::from(args.rate),
            next: Instant::now(),
            sent: 0,
        })
    }

    pub(crate) async fn send(&mut self, shape: Shape, own: &OwnKey) -> Reply {
        self.turn(1).await;
        reply(self.request(shape, own)).await
    }

    /// Sends equal requests at once.
    pub(crate) async fn storm(
        &mut self,
        shape: Shape,
        own: &OwnKey,
        requests: usize,
    ) -> Vec<Reply> {
        self.turn(requests).await;
        join_all((0..requests).map(|_| reply(self.request(shape, own)))).await
    }

    /// Sends a request, and closes its connection after this time. `None` if there was no response yet.
    pub(crate) async fn hang_up(
        &mut self,
        shape: Shape,
        own: &OwnKey,
        after: Duration,
    ) -> Option<Reply> {
        self.turn(1).await;
        timeout(after, reply(self.request(shape, own))).await.ok()
    }

    /// Waits until so many requests may be sent.
    async fn turn(&mut self, requests: usize) {
        sleep(self.next.saturating_duration_since(Instant::now())).await;
        let requests_u32 = u32::try_from(requests).unwrap_or(u32::MAX);
        self.next = Instant::now() + self.interval * requests_u32;
        self.sent += requests;
    }

    fn request(&self, shape: Shape, own: &OwnKey) -> RequestBuilder {
        let mut headers = self.target.headers(shape);
        let name = HeaderName::from_static(self.convention.key_header());
        for value in self.keys(shape.key, own) {
            headers.append(name.clone(), value);
        }
        let has_date = self.convention.has_first_sent();
        if has_date && !matches!(shape.key, SentKey::Undated | SentKey::Missing) {
            let date = HeaderValue::from_str(&own.first_sent);
            date.map(|date| headers.insert("repeatability-first-sent", date))
                .ok();
        }
        let url = self.target.url(shape).clone();
        let request = self.http.request(self.target.method.clone(), url);
        request
            .headers(headers)
            .body(self.target.body(shape, &own.key))
    }

    /// The lines of the header of the key.
    fn keys(&self, form: SentKey, own: &OwnKey) -> Vec<HeaderValue> {
        let quoted = |key: &str| {
            if self.quotes {
                format!("\"{key}\"")
            } else {
                key.to_owned()
            }
        };
        let lines = match form {
            SentKey::Own | SentKey::Undated => vec![quoted(&own.key)],
            SentKey::Another => vec![quoted(&uuid())],
            SentKey::Missing => Vec::new(),
            SentKey::Empty => vec![String::new()],
            SentKey::Unterminated => vec![format!("\"{}", own.key)],
            SentKey::TwoLines => vec![quoted(&own.key), quoted(&uuid())],
            SentKey::Long => vec![quoted(&"k".repeat(LONG))],
        };
        let lines = lines.iter().map(|line| HeaderValue::from_str(line));
        lines.filter_map(Result::ok).collect()
    }
}

async fn reply(request: RequestBuilder) -> Reply {
    let begin = Instant::now();
    let answer = async {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok((status, headers, response.bytes().await?))
    };
    match answer.await {
        Ok((status, headers, body)) => Reply {
            status,
            headers,
            body: body.to_vec(),
            error: None,
            took: begin.elapsed(),
        },
        Err(error) => {
            let error: reqwest::Error = error;
            Reply {
                error: Some(with_causes(&error.without_url())),
                took: begin.elapsed(),
                ..Reply::default()
            }
        }
    }
}

/// A random UUID of version 4.
fn uuid() -> String {
    let random = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{random:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_random_uuid() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"), "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
