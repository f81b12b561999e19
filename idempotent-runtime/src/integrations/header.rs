//! The value of a header that a request has once.

use ::http::header::AsHeaderName;
use ::http::{HeaderMap, HeaderValue};

/// A header was sent more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated;

/// The value of the header. `None` if the header is missing.
pub fn single_value(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> Result<Option<&HeaderValue>, Repeated> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Repeated),
    }
}
