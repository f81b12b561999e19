//! Refused calls as responses of actix-web, and extractors for `X-Request-Id` and the language.

use std::sync::Arc;

use ::http::Response;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, Responder, ResponseError};
use bytes::Bytes;

use crate::integrations::problem::Problem;
use crate::integrations::rejection::HeaderRejection;
use crate::{Error, Lang, Once};

pub(crate) mod convert;
pub(crate) mod extract;

/// The response to a refused call in this language. The extractor [`Lang`] reads the language that the request asks for.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use actix_web::HttpResponse;
/// use idempotence::{Error, Lang};
///
/// # async fn charge() -> Result<String, Error> { Ok(String::new()) }
/// async fn pay(lang: Lang) -> HttpResponse {
///     match charge().await {
///         Ok(receipt) => HttpResponse::Ok().body(receipt),
///         Err(error) => idempotence::integrations::actix::refusal(error, lang),
///     }
/// }
/// # actix_web::web::post().to(pay);
/// ```
///
/// Inside of an `http::IdempotencyLayer` the response takes the form of the layer's profile. Outside of a layer `refusal_as` has
/// the form of a profile.
pub fn refusal(error: Error, lang: Lang) -> HttpResponse {
    let mut response = refused(&error, lang);
    response.extensions_mut().insert(Arc::new(error));
    response
}

/// [`refusal`] in English. The bodies and statuses are the same as with axum.
impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        refused(self, Lang::En).status()
    }

    fn error_response(&self) -> HttpResponse {
        refused(self, Lang::En)
    }
}

/// The rejection as a response, in the language of the request.
impl ResponseError for HeaderRejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_response(&self) -> HttpResponse {
        response_of(self.response())
    }
}

/// The response of the value. A replayed response also has the header `idempotency-replayed: true`.
impl<T: Responder> Responder for Once<T> {
    type Body = T::Body;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<T::Body> {
        let replayed = self.is_replayed();
        let mut response = self.into_inner().respond_to(request);
        if replayed {
            let name = actix_web::http::header::HeaderName::from_static("idempotency-replayed");
            let value = actix_web::http::header::HeaderValue::from_static("true");
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// An extension of the response to a refused call. It tells a layer around the handler what to do with the key.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCall {
    /// The body of the call was stopped in the middle: its work may be done or not.
    pub is_unknown: bool,
}

/// The response to a refused call.
fn refused(error: &Error, lang: Lang) -> HttpResponse {
    let problem = Problem::from_error(error, lang);
    let mut response = response_of(problem.response());
    response.extensions_mut().insert(problem);
    let is_unknown = matches!(error, Error::LeaseLost(_));
    response.extensions_mut().insert(RefusedCall { is_unknown });
    response
}

/// A response in the types of actix.
pub fn response_of(response: Response<Bytes>) -> HttpResponse {
    let (mut head, body) = response.into_parts();
    let problem = head.extensions.remove::<Problem>();
    let status = StatusCode::from_u16(head.status.as_u16());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponseBuilder::new(status).body(body);
    *response.headers_mut() = convert::old_headers(&head.headers);
    if let Some(problem) = problem {
        response.extensions_mut().insert(problem);
    }
    response
}
