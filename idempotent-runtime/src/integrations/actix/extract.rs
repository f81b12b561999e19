//! What a handler of actix reads from the headers of its request.

use std::convert::Infallible;
use std::future::{Ready, ready};

use ::http::HeaderMap;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use super::convert::new_headers;
use crate::integrations::lang;
use crate::integrations::rejection::HeaderRejection;
use crate::{Lang, RequestId};

/// Reads the header `X-Request-Id`. For a header with another name use [`from_headers`](RequestId::from_headers).
///
/// The id deduplicates requests only if the client makes it, and no proxy replaces it.
impl FromRequest for RequestId {
    type Error = HeaderRejection;
    type Future = Ready<Result<Self, HeaderRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::required(&headers_of(request)))
    }
}

/// Reads the header `Accept-Language` with [`Lang::from_accept_language`]. Without the header the language is English.
impl FromRequest for Lang {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(lang::from_headers(&headers_of(request))))
    }
}

/// The headers of a request. Both versions of `http` allow the same headers.
pub fn headers_of(request: &HttpRequest) -> HeaderMap {
    new_headers(request.headers()).unwrap_or_default()
}
