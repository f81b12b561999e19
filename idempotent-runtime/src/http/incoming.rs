//! What the layer reads of a request before its call.

use std::error::Error as StdError;

use std::pin::pin;

use ::http::{HeaderMap, Uri, header, request};
use bytes::{Bytes, BytesMut};
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

/// Whether this is a request of gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
    content_type
        .split_at_checked(GRPC.len())
        .is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b';' | b' ', ..])
        })
}

const GRPC: &[u8] = b"application/grpc";

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
    let mut body = pin!(Limited::new(body, limit));
    let (mut read, mut trailers) = (Joined::default(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            // A limit of an outer layer also counts.
            if is_too_large(&*error) {
                Unread::TooLarge
            } else {
                Unread::Broken
            }
        })?;
        match frame.into_data() {
            Ok(chunk) => read.push(chunk),
            Err(frame) => trailers = frame.into_trailers().ok().or(trailers),
        }
    }
    Ok((read.finish(), trailers))
}

/// The chunks of a body as one. A single chunk is not copied. A client may send chunks of one byte, so they are not collected.
#[derive(Default)]
struct Joined {
    first: Bytes,
    all: BytesMut,
}

impl Joined {
    fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&chunk);
    }

    fn finish(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}

fn is_too_large(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |cause| StdError::source(*cause));
    causes.any(<dyn StdError>::is::<LengthLimitError>)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(chunks: &[&'static str]) -> Bytes {
        let mut joined = Joined::default();
        for chunk in chunks {
            joined.push(Bytes::from_static(chunk.as_bytes()));
        }
        joined.finish()
    }

    #[test]
    fn chunks_become_one_body() {
        assert_eq!(joined(&[]), "");
        assert_eq!(joined(&["", "a", "", "b"]), "ab");
        assert_eq!(joined(&["ab", "c", "de"]), "abcde");
    }

    #[test]
    fn a_single_chunk_is_not_copied() {
        let chunk = "a whole body";
        assert_eq!(joined(&[chunk]).as_ptr(), chunk.as_ptr());
    }
}
