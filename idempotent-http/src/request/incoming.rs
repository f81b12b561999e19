//! What the layer reads of a request before its call.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::pin::pin;

use ::http::{HeaderMap, Uri, request};
use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::body::Joined;

#[cfg(feature = "axum")]
use ::axum::extract::OriginalUri;

/// The URI of the request. Inside of `Router::nest` the URI of `head` has lost its beginning.
#[cfg(feature = "axum")]
pub(crate) fn original_uri(head: &request::Parts) -> &Uri {
    let original = head.extensions.get::<OriginalUri>();
    original.map_or(&head.uri, |original| &original.0)
}

/// The URI of the request.
#[cfg(not(feature = "axum"))]
pub(crate) fn original_uri(head: &request::Parts) -> &Uri {
    &head.uri
}

/// Why a body is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLarge,
    /// It did not arrive as a whole.
    Broken,
    /// It cannot be decoded, for example because of its chunks. An equal request cannot be decoded, either.
    Malformed,
}

/// Reads a body of at most `limit` bytes into memory.
pub(crate) async fn read_body<B>(
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
    let mut body = pin!(Limited::new(body, limit));
    let (mut read, mut trailers) = (Joined::default(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unread::because_of(&*error))?;
        match frame.into_data() {
            Ok(chunk) => read.push(chunk),
            Err(frame) => trailers = frame.into_trailers().ok().or(trailers),
        }
    }
    Ok((read.finish(), trailers))
}

impl Unread {
    fn because_of(error: &(dyn StdError + 'static)) -> Self {
        let causes = || std::iter::successors(Some(error), |cause| StdError::source(*cause));
        // A limit of an outer layer also counts.
        if causes().any(<dyn StdError>::is::<LengthLimitError>) {
            return Self::TooLarge;
        }
        // Servers and decoders, for example hyper, report a malformed body with these kinds.
        let is_malformed = |kind| matches!(kind, ErrorKind::InvalidData | ErrorKind::InvalidInput);
        let kinds = || causes().filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
        if kinds().any(|kind| kind == ErrorKind::FileTooLarge) {
            Self::TooLarge
        } else if kinds().any(is_malformed) {
            Self::Malformed
        } else {
            Self::Broken
        }
    }
}
