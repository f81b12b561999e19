//! The body of a request or a response that passed the layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a request or a response that passed the layer: the body `B` itself, or bytes in memory with their trailers.
    pub struct ReplayBody<B>
    where
        B: Body,
    {
        #[pin]
        content: Content<B>,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<B>
    where
        B: Body,
    {
        /// The body itself.
        Inner { #[pin] body: B },
        /// A whole body in memory. Its trailers are boxed, because few bodies have trailers, and bodies are moved often.
        Whole { bytes: Bytes, trailers: Option<Box<HeaderMap>> },
        /// The beginning of a body, and the rest or the error that followed.
        Begun { begun: Bytes, then: Then<B> },
    }
}

/// What follows the beginning of a body.
enum Then<B: Body> {
    Rest(Pin<Box<B>>),
    Error(B::Error),
    Nothing,
}

impl<B: Body> ReplayBody<B> {
    /// The body itself.
    pub(super) fn inner(body: B) -> Self {
        let content = Content::Inner { body };
        Self { content }
    }

    /// A body in memory.
    pub(super) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        let trailers = trailers.map(Box::new);
        let content = Content::Whole { bytes, trailers };
        Self { content }
    }

    /// The body itself; else the body that is in memory.
    pub(super) fn into_inner(self) -> Result<B, Self> {
        match self.content {
            Content::Inner { body } => Ok(body),
            content => Err(Self { content }),
        }
    }

    /// The bytes of a body in memory, without its trailers; else the body.
    #[cfg(feature = "actix")]
    pub(super) fn into_bytes(self) -> Result<Bytes, Self> {
        match self.content {
            Content::Whole { bytes, .. } => Ok(bytes),
            content => Err(Self { content }),
        }
    }

    /// The body itself, if it is not in memory.
    #[cfg(feature = "actix")]
    pub(super) fn as_inner(&self) -> Option<&B> {
        match &self.content {
            Content::Inner { body } => Some(body),
            Content::Whole { .. } | Content::Begun { .. } => None,
        }
    }

    fn begun(begun: Joined, then: Then<B>) -> Self {
        let begun = begun.finish();
        let content = Content::Begun { begun, then };
        Self { content }
    }

    /// The bytes and the trailers of a body in memory.
    pub(super) fn in_memory(&self) -> Option<(&Bytes, Option<&HeaderMap>)> {
        match &self.content {
            Content::Whole { bytes, trailers } => Some((bytes, trailers.as_deref())),
            Content::Inner { .. } | Content::Begun { .. } => None,
        }
    }
}

/// Reads a body into memory. A body with more than `limit` bytes, or with an error, is not in memory afterwards: it yields what
/// was read, and then the rest or the error.
pub(super) async fn buffer<B: Body<Data = Bytes>>(body: B, limit: usize) -> ReplayBody<B> {
    let hint = body.size_hint().lower();
    if usize::try_from(hint).map_or(true, |lower| lower > limit) {
        return ReplayBody::inner(body);
    }
    let mut body = Box::pin(body);
    let (mut begun, mut size) = (Joined::default(), 0_usize);
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return ReplayBody::begun(begun, Then::Error(error)),
        };
        match frame.into_data() {
            Ok(data) => {
                size = size.saturating_add(data.len());
                begun.push(data);
                if size > limit {
                    return ReplayBody::begun(begun, Then::Rest(body));
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok().or(trailers),
        }
    }
    ReplayBody::whole(begun.finish(), trailers)
}

/// The chunks of a body as one. A single chunk is not copied. Chunks may have one byte, so they are not kept one by one.
#[derive(Default)]
pub(super) struct Joined {
    first: Bytes,
    all: BytesMut,
}

impl Joined {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&chunk);
    }

    pub(super) fn finish(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.project().content.project() {
            ContentProjection::Inner { body } => return body.poll_frame(cx),
            ContentProjection::Whole { bytes, trailers } => {
                if bytes.is_empty() {
                    trailers
                        .take()
                        .map(|trailers| Ok(Frame::trailers(*trailers)))
                } else {
                    Some(Ok(Frame::data(std::mem::take(bytes))))
                }
            }
            ContentProjection::Begun { begun, then } => {
                if begun.is_empty() {
                    return then.poll_frame(cx);
                }
                Some(Ok(Frame::data(std::mem::take(begun))))
            }
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Inner { body } => body.is_end_stream(),
            Content::Whole { bytes, trailers } => bytes.is_empty() && trailers.is_none(),
            Content::Begun { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Inner { body } => body.size_hint(),
            Content::Whole {
                bytes,
                trailers: None,
            } => SizeHint::with_exact(bytes.len() as u64),
            // With a known length a server of HTTP/1.1 sends `Content-Length`, and then it cannot send trailers.
            Content::Whole { .. } | Content::Begun { .. } => SizeHint::default(),
        }
    }
}

impl<B: Body<Data = Bytes>> Then<B> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self {
            Self::Rest(body) => body.as_mut().poll_frame(cx),
            Self::Error(_) | Self::Nothing => {
                let error = match std::mem::replace(self, Self::Nothing) {
                    Self::Error(error) => Some(Err(error)),
                    Self::Rest(_) | Self::Nothing => None,
                };
                Poll::Ready(error)
            }
        }
    }
}

/// A body in memory, without trailers.
impl<B: Body> From<Bytes> for ReplayBody<B> {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes, None)
    }
}

impl<B: Body + Default> Default for ReplayBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: Body> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match &self.content {
            Content::Inner { .. } => "inner",
            Content::Whole { .. } => "whole",
            Content::Begun { .. } => "begun",
        };
        f.debug_tuple("ReplayBody").field(&content).finish()
    }
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
