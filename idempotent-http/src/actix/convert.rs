//! Heads of actix, which are of `http` 0.2, as heads of `http` 1, and back. Both versions allow the same names and values.

use std::sync::Arc;

use ::http::{Method, Request, Response, StatusCode, Uri, Version, request, response};
use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http as old;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use idempotent_runtime::Error;
use idempotent_runtime::port::http::{Problem, RefusedCall, new_headers, old_headers};

use super::body::GuardedBody;
use crate::context::{IdempotencyOutcome, read_context};
use crate::layer::config::{Config, RefusalForm};
use crate::request::route::MatchedPattern;
use crate::response::decision::Decision;

/// The head of a request, with its route and the calls of outer layers. `None` if `http` 1 cannot express its method or URI.
pub(super) fn head_of(request: &HttpRequest) -> Option<request::Parts> {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::from_bytes(request.method().as_str().as_bytes()).ok()?;
    head.uri = Uri::try_from(request.uri().to_string()).ok()?;
    head.version = match request.version() {
        old::Version::HTTP_09 => Version::HTTP_09,
        old::Version::HTTP_10 => Version::HTTP_10,
        old::Version::HTTP_2 => Version::HTTP_2,
        old::Version::HTTP_3 => Version::HTTP_3,
        _ => Version::HTTP_11,
    };
    head.headers = new_headers(request.headers())?;
    if let Some(pattern) = request.match_pattern() {
        head.extensions.insert(MatchedPattern(pattern.into()));
    }
    read_context(&request.extensions(), &mut head);
    Some(head)
}

/// The head is of a response that a handler or an error has made, not of a refusal or a replay.
#[derive(Clone)]
pub(super) struct OfHandler;

/// The head of a response, with what its handler and an inner layer say about it. `None` if `http` 1 cannot express its status.
pub(super) fn response_head_of<B>(response: &HttpResponse<B>) -> Option<response::Parts> {
    let (mut head, ()) = Response::new(()).into_parts();
    head.status = StatusCode::from_u16(response.status().as_u16()).ok()?;
    head.headers = new_headers(response.headers())?;
    head.extensions.insert(OfHandler);
    let local = response.extensions();
    if let Some(decision) = local.get::<Decision>() {
        head.extensions.insert(*decision);
    } else if let Some(refused) = local.get::<RefusedCall>() {
        let decision = Decision::after_refusal(refused.is_unknown);
        head.extensions.insert(decision);
    }
    if let Some(outcome) = local.get::<IdempotencyOutcome>() {
        head.extensions.insert(*outcome);
    }
    if let Some(error) = local.get::<Arc<Error>>() {
        head.extensions.insert(Arc::clone(error));
    } else if let Some(error) = response.error().and_then(|error| error.as_error::<Error>()) {
        head.extensions.insert(Arc::new(error.clone()));
    }
    if let Some(problem) = local.get::<Problem>() {
        head.extensions.insert(problem.clone());
    }
    drop(local);
    Some(head)
}

/// The response to a request that is not guarded. A refusal of this crate takes the form of the layer.
pub(super) fn reformed<B: MessageBody>(
    config: &Config,
    response: ServiceResponse<B>,
    form: RefusalForm,
) -> ServiceResponse<GuardedBody<B>> {
    let is_refusal = response.response().extensions().contains::<Problem>();
    let head = is_refusal.then(|| response_head_of(response.response()));
    let Some(Some(mut head)) = head else {
        return response.map_body(|_, body| GuardedBody::unread(body));
    };
    let length = match response.response().body().size() {
        BodySize::Sized(length) => Some(length),
        BodySize::None | BodySize::Stream => None,
    };
    let refusal = config.reform(&mut head, length, form);
    response.map_body(|old, body| {
        let Some(refusal) = refusal else {
            return GuardedBody::unread(body);
        };
        old.headers = old_headers(&head.headers);
        old.status = old::StatusCode::from_u16(head.status.as_u16()).unwrap_or(old.status);
        GuardedBody::new(refusal.into())
    })
}
