//! What the answer to a request with a key says.

use std::time::Duration;

use reqwest::Response;

use crate::key::OutgoingKey;
use crate::problem::Problem;

/// What the answer to a request with a key says. The middleware adds it to the extensions of the response.
///
/// ```
/// use idempotence_client::Answer;
///
/// # fn receive(response: &reqwest::Response) {
/// if let Some(answer) = Answer::of(response) {
///     let code = answer.problem().and_then(|problem| problem.code());
///     println!("after {} tries, replay: {}, refused as {code:?}", answer.tries(), answer.is_replay());
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) key: OutgoingKey,
    pub(crate) tries: u32,
    pub(crate) is_replay: bool,
    pub(crate) ends_key: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) problem: Option<Problem>,
}

impl Answer {
    /// The answer in this response. `None` if the middleware did not guard the request.
    pub fn of(response: &Response) -> Option<&Self> {
        response.extensions().get()
    }

    /// The key of the request.
    pub fn key(&self) -> &OutgoingKey {
        &self.key
    }

    /// How often the middleware has sent the request. 1 if the first try had this answer.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether this is the stored answer to an earlier request with the key, perhaps to an earlier try of this request.
    ///
    /// False for each answer of [`Profile::Repeatability`](crate::Profile::Repeatability), which marks no answer.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Whether the outcome of the key is known, so that the next intention needs a new key.
    ///
    /// False while the work may be done or not, may still run, or did not begin, for example after `outcome_unknown`, after
    /// `in_progress` until the deadline, or after an error of the handler. Then send
    /// it again only with the same [key](Self::key): a new key could do the work twice.
    ///
    /// False for the answer of another server after a redirect: that server does not know what the first one has done. An answer
    /// that a middleware makes without the URL of the request is such an answer, too.
    ///
    /// False after `payload_mismatch`, too. The key belongs to a request with another payload, which may have done its work: find out
    /// why the payloads differ before you make a new key.
    pub fn ends_key(&self) -> bool {
        self.ends_key
    }

    /// How long the server asks the client to wait, by its problem or the header `Retry-After`. The middleware returns such an
    /// answer if this time does not fit in the [deadline](crate::IdempotentRequests::deadline).
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Why the server refused the request. `None` for an answer below 400, and if the body is no problem.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }
}
