//! Headers of actix, which are of `http` 0.2, as headers of `http` 1, and back. Both versions allow the same names and values.

use ::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http as old;

/// The headers of a response in the types of actix.
pub fn old_headers(headers: &HeaderMap) -> old::header::HeaderMap {
    let mut converted = old::header::HeaderMap::with_capacity(headers.keys_len());
    for (name, value) in headers {
        let name = old::header::HeaderName::from_bytes(name.as_str().as_bytes());
        let new = old::header::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(mut new)) = (name, new) {
            new.set_sensitive(value.is_sensitive());
            converted.append(name, new);
        }
    }
    converted
}

/// The headers in the types of `http` 1. The values of one name stay in their order. actix keeps no order of different names.
pub fn new_headers(headers: &old::header::HeaderMap) -> Option<HeaderMap> {
    let mut converted = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
        let mut new = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        new.set_sensitive(value.is_sensitive());
        converted.append(name, new);
    }
    Some(converted)
}
