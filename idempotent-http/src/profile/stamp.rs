//! What a convention adds to each response to a guarded request.

use ::http::{HeaderName, HeaderValue, Response};

/// The value of a header that says that a request was accepted.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("accepted");

/// What a convention adds to each response to a guarded request.
#[derive(Default)]
pub(crate) struct Stamp {
    /// The key of the request, as it was sent.
    pub(crate) key: Option<(HeaderName, HeaderValue)>,
    /// The header that says that the request was accepted.
    pub(crate) result: Option<HeaderName>,
}

impl Stamp {
    /// Adds it to a response. `is_answered` if the handler or a stored response answered the request with its key.
    pub(crate) fn add<B>(self, is_answered: bool, response: &mut Response<B>) {
        let headers = response.headers_mut();
        if let Some((name, key)) = self.key {
            headers.insert(name, key);
        }
        if let Some(name) = self.result.filter(|_| is_answered) {
            headers.insert(name, ACCEPTED);
        }
    }
}
