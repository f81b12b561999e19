//! What a handler of actix reads from the headers of its request.

use std::convert::Infallible;
use std::future::{Ready, ready};

use ::http::HeaderMap;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::http::actix::new_headers;
use crate::http::lang;
use crate::integrations::key::IdempotencyKey;
use crate::integrations::rejection::HeaderRejection;
use crate::{Lang, RequestId};

/// ```
/// # use idempotent_runtime as idempotence;
/// use actix_web::{App, web};
/// use idempotence::integrations::actix::IdempotencyKey;
///
/// async fn pay(key: IdempotencyKey) -> String {
///     format!("you sent {}", key.0)
/// }
///
/// let app = App::new().route("/payments", web::post().to(pay));
/// # drop(app);
/// ```
///
/// **An `Option<IdempotencyKey>` of actix is also `None` if the header cannot be read.** Use [`OptionalIdempotencyKey`], which refuses
/// such a request.
impl FromRequest for IdempotencyKey {
    type Error = HeaderRejection;
    type Future = Ready<Result<Self, HeaderRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::required(&headers_of(request)))
    }
}

/// The header `Idempotency-Key`, or `None` if it is missing. A request whose header cannot be read is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OptionalIdempotencyKey(pub Option<IdempotencyKey>);

impl FromRequest for OptionalIdempotencyKey {
    type Error = HeaderRejection;
    type Future = Ready<Result<Self, HeaderRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(IdempotencyKey::optional(&headers_of(request)).map(Self))
    }
}

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
fn headers_of(request: &HttpRequest) -> HeaderMap {
    new_headers(request.headers()).unwrap_or_default()
}
