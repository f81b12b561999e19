//! The middleware.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderName, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error, Middleware, Next, Result};

use crate::backoff::Backoff;
use crate::first_sent::FirstSent;
use crate::key::{InvalidKey, OutgoingKey, TextIsNoKey};
use crate::profile::{Convention, Profile};
use crate::retry::{RetryLimits, RetryPolicy};

/// A middleware that makes one key for each logical request, and repeats the request with it until it has the answer.
///
/// A logical request is one call of `send` (or `execute_with_extensions`, with extensions of its own). The key comes from the
/// header of the request, else from an [`OutgoingKey`] in its extensions, else it is made.
///
/// A request is repeated if its answer is lost (a failed connection, a timeout, a body that breaks off), if the server asks for it
/// (`client_action` `wait` in the problem, or 409 with `Retry-After`), and after 408, 429, 502, 503 and 504. The server names the
/// pause, or it grows with full jitter. Every other answer is final, and so is each replay.
///
/// **Only a server that honours keys may get a request twice.** So name the servers that do.
///
/// ```
/// use idempotence_client::{Answer, IdempotentRequests, same_server_redirects};
/// use reqwest_middleware::ClientBuilder;
/// # use axum::{Router, routing::post};
/// # use idempotence::{Idempotency, MemoryStore, http::IdempotencyLayer};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let idempotency = Idempotency::new(MemoryStore::new());
/// # let layer = IdempotencyLayer::builder(&idempotency).global_scope().build();
/// # let shop = Router::new().route("/orders", post(async || "one tea")).route_layer(layer);
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let url = format!("http://{}/orders", listener.local_addr()?);
/// # tokio::spawn(async move { axum::serve(listener, shop).await });
///
/// let http = reqwest::Client::builder().redirect(same_server_redirects()).build()?;
/// let client = ClientBuilder::new(http)
///     .with(IdempotentRequests::to_hosts(["127.0.0.1"]))
///     .build();
/// let response = client.post(&url).body("tea").send().await?;
/// let key = Answer::of(&response).expect("a guarded request").key().clone();
///
/// let again = client.post(&url).body("tea").with_extension(key).send().await?;
/// assert!(Answer::of(&again).is_some_and(Answer::is_replay));
/// assert_eq!(again.text().await?, "one tea");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Unanswered`](crate::Unanswered), if the last try got no answer; [`InvalidKey`], if the header of the request has a
/// malformed key, or two keys; an error that names the right type, if the extensions have a `String` and no key. All are
/// `reqwest_middleware::Error::Middleware`.
///
/// # Cancellation
///
/// If the future of the request is dropped, no further try is made. A try that was sent may run, so a program that sends the request
/// again later needs the same key: it makes the key itself.
pub struct IdempotentRequests {
    is_guarded: Box<dyn Fn(&Request) -> bool + Send + Sync>,
    convention: Convention,
    retry: RetryPolicy,
}

impl IdempotentRequests {
    /// For requests to these hosts, which honour keys on all their routes: `to_hosts(["api.shop.example"])`. A host has no port.
    pub fn to_hosts<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        Self::to(move |request| {
            let host = request.url().host_str().unwrap_or_default();
            hosts
                .iter()
                .any(|guarded| guarded.eq_ignore_ascii_case(host))
        })
    }

    /// For requests that the closure accepts: their servers honour keys on their routes. A request with an [`OutgoingKey`] in its
    /// extensions is guarded whatever the closure says.
    pub fn to(is_guarded: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        let convention = Profile::default().convention();
        Self {
            is_guarded: Box::new(is_guarded),
            retry: RetryPolicy {
                replay: convention.replay.clone(),
                never_stored: convention.never_stored,
                response_limit: 1024 * 1024,
                limits: Some(RetryLimits {
                    deadline: Duration::from_mins(1),
                    try_timeout: Duration::from_secs(10),
                    backoff: Backoff {
                        first: Duration::from_secs(1),
                        longest: Duration::from_secs(10),
                    },
                }),
            },
            convention,
        }
    }

    /// The convention of the servers. Default: [`Profile::Ietf`]. It replaces `key_header`, `replay_header` and `methods`.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.convention = profile.convention();
        self.retry.replay.clone_from(&self.convention.replay);
        self.retry.never_stored = self.convention.never_stored;
        self
    }

    /// The header of the key, for example `PayPal-Request-Id`. A header with another name than the header of the profile has the key
    /// without quotes.
    #[must_use]
    pub fn key_header(mut self, name: HeaderName) -> Self {
        self.convention.key = name;
        self
    }

    /// The header that is `true` in a replay.
    #[must_use]
    pub fn replay_header(mut self, name: HeaderName) -> Self {
        self.retry.replay = Some(name);
        self
    }

    /// Only requests with these methods get a key. Default: `POST` and `PATCH`.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.convention.methods = methods.into_iter().collect();
        self
    }

    /// The longest time for all tries and pauses of a request. Default: 1 min.
    ///
    /// If less than a second would remain for a try after the next pause, the caller gets the last answer or error at once. With a
    /// deadline below 10 s this is a tenth of the deadline, and with a shorter [`try_timeout`](Self::try_timeout) this time.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.limits(|limits| limits.deadline = deadline)
    }

    /// How long one try may take, with the body of its answer. Default: 10 s. An answer that takes longer is not lost: the server
    /// stores it, and the next try gets it.
    #[must_use]
    pub fn try_timeout(self, limit: Duration) -> Self {
        self.limits(|limits| limits.try_timeout = limit)
    }

    /// The ceilings of the pauses if the server names no time: the first, doubled after each try, up to `longest`. A pause is a
    /// random part of its ceiling. Default: 1 s and 10 s.
    #[must_use]
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        self.limits(|limits| limits.backoff = Backoff { first, longest })
    }

    /// Sends each request once: another middleware, for example `reqwest-retry`, repeats it. Errors stay as reqwest returns them.
    /// All tries have the same key, whether that middleware is inside of this one or outside.
    ///
    /// `reqwest-retry` reads neither `Retry-After` nor problems. It stops at a 409 of a running request, and repeats each 5xx.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.retry.limits = None;
        self
    }

    /// The longest body of an answer that is read before the caller gets the response, in bytes. Default: 1 MiB. If such a body breaks
    /// off, the request is repeated.
    ///
    /// A longer body, a stream by its type (`text/event-stream`, `application/x-ndjson`, `application/json-seq`,
    /// `multipart/x-mixed-replace`), and with 0 each body of a success is passed on while it arrives.
    #[must_use]
    pub fn response_limit(mut self, bytes: usize) -> Self {
        self.retry.response_limit = bytes;
        self
    }

    fn limits(mut self, set: impl FnOnce(&mut RetryLimits)) -> Self {
        if let Some(limits) = &mut self.retry.limits {
            set(limits);
        }
        self
    }

    /// Adds the key and the time of the first try to the request. Returns the key, or `None` if the request is not guarded.
    fn add_key(
        &self,
        request: &mut Request,
        extensions: &mut Extensions,
    ) -> Result<Option<OutgoingKey>> {
        let given = extensions.get::<OutgoingKey>().cloned();
        let first_sent = extensions.get::<FirstSent>().copied();
        let used = extensions.get::<SentKey>();
        let used = used.filter(|used| used.is_of(request)).cloned();
        let has_method = self.convention.methods.contains(request.method());
        if given.is_none() && !(has_method && (self.is_guarded)(request)) {
            return Ok(None);
        }
        let (name, is_quoted) = (&self.convention.key, self.convention.is_quoted());
        let mut lines = request.headers().get_all(name).iter();
        let key = match (lines.next(), lines.next()) {
            (Some(line), None) => OutgoingKey::read(line, is_quoted).map_err(Error::middleware)?,
            (Some(_), Some(_)) => return Err(Error::middleware(InvalidKey)),
            (None, _) => {
                let used = used.as_ref().map(|used| used.key.clone());
                let key = given.or(used);
                if key.is_none() && extensions.get::<String>().is_some() {
                    return Err(Error::middleware(TextIsNoKey));
                }
                let key = key.unwrap_or_else(OutgoingKey::random);
                let value = key.header(is_quoted).map_err(Error::middleware)?;
                request.headers_mut().insert(name, value);
                key
            }
        };
        let earlier = used.filter(|used| used.key == key);
        let earlier = earlier.map(|used| used.first_sent);
        let first_sent = first_sent.or(earlier).unwrap_or_else(FirstSent::now);
        self.add_first_sent(request, first_sent);
        // A retry middleware outside of this one sends the same logical request again, with the same extensions.
        extensions.insert(SentKey {
            key: key.clone(),
            method: request.method().clone(),
            url: request.url().clone(),
            first_sent,
        });
        Ok(Some(key))
    }

    /// Adds the time of the first try, if the convention has it and the caller has not set the header.
    fn add_first_sent(&self, request: &mut Request, first_sent: FirstSent) {
        let name = self.convention.first_sent.as_ref();
        let name = name.filter(|name| !request.headers().contains_key(*name));
        if let (Some(name), Some(value)) = (name, first_sent.header()) {
            request.headers_mut().insert(name, value);
        }
    }
}

/// The key of a request that was sent and the time of its first try, in its extensions. A key of the caller has the type
/// [`OutgoingKey`] there, and another middleware with other servers must not take a made key for it.
#[derive(Clone)]
struct SentKey {
    key: OutgoingKey,
    method: Method,
    url: Url,
    first_sent: FirstSent,
}

impl SentKey {
    fn is_of(&self, request: &Request) -> bool {
        self.method == *request.method() && self.url == *request.url()
    }
}

#[async_trait]
impl Middleware for IdempotentRequests {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(key) = self.add_key(&mut request, extensions)? else {
            return next.run(request, extensions).await;
        };
        self.retry.send(key, request, extensions, next).await
    }
}

impl fmt::Debug for IdempotentRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentRequests")
            .field("convention", &self.convention)
            .field("tries", &self.retry)
            .finish_non_exhaustive()
    }
}
