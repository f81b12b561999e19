//! What a handler of actix reads from the headers of its request.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use idempotent_runtime::port::http::{HeaderRejection, headers_of};

use crate::integrations::key::IdempotencyKey;

/// ```
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
