//! What the layer reads of a request before its call.

use std::error::Error as StdError;

use ::http::{HeaderMap, Uri, request};
use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

#[cfg(feature = "axum")]
use ::axum::extract::{MatchedPath, OriginalUri};

/// The route that axum has matched, such as `/orders/{id}/pay`.
#[cfg(feature = "axum")]
pub(super) fn matched_route(head: &request::Parts) -> Option<&str> {
    head.extensions.get().map(MatchedPath::as_str)
}

/// Without axum no route is known.
#[cfg(not(feature = "axum"))]
pub(super) fn matched_route(_: &request::Parts) -> Option<&str> {
    None
}

/// The URI of the request. Inside of `Router::nest` the URI of `head` has lost its beginning.
#[cfg(feature = "axum")]
pub(super) fn original_uri(head: &request::Parts) -> &Uri {
    let original = head.extensions.get::<OriginalUri>();
    original.map_or(&head.uri, |original| &original.0)
}

/// The URI of the request.
#[cfg(not(feature = "axum"))]
pub(super) fn original_uri(head: &request::Parts) -> &Uri {
    &head.uri
}

/// Why a body is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    TooLarge,
    Broken,
}

/// Reads a body of at most `limit` bytes into memory.
pub(super) async fn read_body<B>(
    body: B,
    limit: usize,
) -> Result<(Bytes, Option<HeaderMap>), Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(Unread::TooLarge);
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => {
            let trailers = body.trailers().cloned();
            Ok((body.to_bytes(), trailers))
        }
        // A limit of an outer layer also counts.
        Err(error) if is_too_large(&*error) => Err(Unread::TooLarge),
        Err(_) => Err(Unread::Broken),
    }
}

fn is_too_large(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |cause| StdError::source(*cause));
    causes.any(<dyn StdError>::is::<LengthLimitError>)
}
