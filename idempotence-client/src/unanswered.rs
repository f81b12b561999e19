//! A request that got no answer.

use std::error::Error;
use std::fmt;

use http::Method;

use crate::key::OutgoingKey;

/// A request with a key got no answer until the deadline. Its work may be done or not.
///
/// ```
/// use idempotence_client::Unanswered;
///
/// # async fn place(request: reqwest_middleware::RequestBuilder) {
/// match request.send().await {
///     Ok(response) => println!("{}", response.status()),
///     Err(error) => {
///         if let Some(unanswered) = Unanswered::of(&error) {
///             // Store the key, and send the same request with it later.
///             println!("{}", unanswered.key().as_str());
///         }
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Unanswered {
    pub(crate) key: OutgoingKey,
    pub(crate) method: Method,
    /// Scheme, host and port.
    pub(crate) server: String,
    pub(crate) tries: u32,
    pub(crate) is_repeatable: bool,
    pub(crate) last: Failure,
}

/// Why the last try got no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection failed or broke off, or another middleware failed.
    Error(reqwest_middleware::Error),
    /// The answer did not come in time.
    TimedOut,
}

impl Failure {
    /// The failure without the query and the fragment of the URL, which may have secrets: errors get into logs.
    pub(crate) fn of(mut error: reqwest_middleware::Error) -> Self {
        if let reqwest_middleware::Error::Reqwest(error) = &mut error
            && let Some(url) = error.url_mut()
        {
            url.set_query(None);
            url.set_fragment(None);
        }
        Self::Error(error)
    }
}

impl Unanswered {
    /// The unanswered request, if this is the error of one.
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// The key of the request. Only a request with this key cannot do the work twice.
    pub fn key(&self) -> &OutgoingKey {
        &self.key
    }

    /// How often the middleware has sent the request.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// The error of the last try, of reqwest or of a middleware inside of this one. `None` if the answer did not come in time.
    /// The URL of an error of reqwest has no query.
    ///
    /// Also after `is_connect` the work may be done: an earlier try, or the server before a redirect, may have done it.
    pub fn last_error(&self) -> Option<&reqwest_middleware::Error> {
        match &self.last {
            Failure::Error(error) => Some(error),
            Failure::TimedOut => None,
        }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tries = if self.tries == 1 { "try" } else { "tries" };
        let (method, server, count) = (&self.method, &self.server, self.tries);
        write!(
            f,
            "{method} to {server} got no answer after {count} {tries}"
        )?;
        if !self.is_repeatable {
            f.write_str(" (its body is a stream, which cannot be sent again)")?;
        }
        f.write_str(": it may have run, so send it again only with the same idempotency key")
    }
}

impl Error for Unanswered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last_error().map(|error| error as _)
    }
}
