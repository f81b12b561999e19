//! Payloads and bodies of actix, as bodies of the crate `http-body`, and back.

use std::fmt;
use std::io::{self, ErrorKind};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::body::ReplayBody;

/// The body of a request.
pub(super) struct RequestBody {
    payload: Payload,
    /// What the request says in `Content-Length`.
    announced: u64,
}

impl RequestBody {
    pub(super) fn new(payload: Payload, announced: Option<u64>) -> Self {
        let announced = announced.unwrap_or_default();
        Self { payload, announced }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let chunk = ready!(Pin::new(&mut self.payload).poll_next(cx));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data).map_err(unread)))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::default();
        hint.set_lower(self.announced);
        hint
    }
}

/// Why a body could not be read, with the error of actix in it.
fn unread(error: PayloadError) -> io::Error {
    let kind = match &error {
        PayloadError::Incomplete(Some(error)) => error.kind(),
        PayloadError::Overflow => ErrorKind::FileTooLarge,
        PayloadError::EncodingCorrupted => ErrorKind::InvalidData,
        _ => ErrorKind::Other,
    };
    match error {
        PayloadError::Io(error) => error,
        error => io::Error::new(kind, error),
    }
}

/// The error of actix again, because its kind decides about the status of the response.
fn payload_error(error: io::Error) -> PayloadError {
    error.downcast().unwrap_or_else(PayloadError::Io)
}

/// The payload that the handler reads.
pub(super) fn payload_of(body: ReplayBody<RequestBody>) -> Payload {
    match body.into_bytes() {
        // Not an empty chunk.
        Ok(bytes) if bytes.is_empty() => Payload::None,
        Ok(bytes) => Payload::from(bytes),
        Err(body) => {
            let stream: Pin<Box<dyn Stream<Item = _>>> = Box::pin(Chunks { body });
            Payload::from(stream)
        }
    }
}

/// A body that passes unread, as a stream.
struct Chunks {
    body: ReplayBody<RequestBody>,
}

impl Stream for Chunks {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // A request of actix has no trailers.
        let chunk = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()));
        Poll::Ready(chunk.map(|chunk| chunk.map_err(payload_error)))
    }
}

pin_project! {
    /// The body of a response.
    #[project = ResponseBodyProjection]
    pub(super) enum ResponseBody<B> {
        OfHandler { #[pin] body: B },
        /// The body of the response that an error has.
        OfError { bytes: Bytes },
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B) -> Self {
        Self::OfHandler { body }
    }

    pub(super) fn of_error(bytes: Bytes) -> Self {
        Self::OfError { bytes }
    }
}

impl<B: MessageBody> ResponseBody<B> {
    fn size(&self) -> BodySize {
        match self {
            Self::OfHandler { body } => body.size(),
            Self::OfError { bytes } => bytes.size(),
        }
    }
}

impl<B: MessageBody> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let chunk = match self.project() {
            ResponseBodyProjection::OfHandler { body } => ready!(body.poll_next(cx)),
            ResponseBodyProjection::OfError { bytes } => {
                let bytes = mem::take(bytes);
                (!bytes.is_empty()).then_some(Ok(bytes))
            }
        };
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        match self.size() {
            BodySize::None => SizeHint::with_exact(0),
            BodySize::Sized(size) => SizeHint::with_exact(size),
            BodySize::Stream => SizeHint::default(),
        }
    }
}

pin_project! {
    /// The body of a response that passed the layer: the body `B` itself, or bytes in memory.
    pub struct GuardedBody<B>
    where
        B: MessageBody,
    {
        #[pin]
        body: ReplayBody<ResponseBody<B>>,
    }
}

impl<B: MessageBody> GuardedBody<B> {
    pub(super) fn new(body: ReplayBody<ResponseBody<B>>) -> Self {
        Self { body }
    }

    /// The body of a response that the layer did not read.
    pub(super) fn unread(body: B) -> Self {
        Self::new(ReplayBody::inner(ResponseBody::new(body)))
    }
}

impl<B: MessageBody> MessageBody for GuardedBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        match self.body.as_inner() {
            Some(inner) => inner.size(),
            None => match self.body.size_hint().exact() {
                Some(size) => BodySize::Sized(size),
                None => BodySize::Stream,
            },
        }
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        loop {
            match ready!(self.as_mut().project().body.poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    // A response of actix has no trailers. A server of `tower` may have stored some.
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
            }
        }
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        self.body
            .into_bytes()
            .or_else(|body| match body.as_inner() {
                Some(ResponseBody::OfError { bytes }) => Ok(bytes.clone()),
                _ => Err(Self::new(body)),
            })
    }
}

impl<B: MessageBody> fmt::Debug for GuardedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedBody").field(&self.size()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_error_is_bytes_for_a_layer_outside() {
        let error = ResponseBody::<Bytes>::of_error(Bytes::from_static(b"refused"));
        let body = GuardedBody::new(ReplayBody::inner(error));
        assert_eq!(body.try_into_bytes().unwrap(), "refused");
        let unread = GuardedBody::unread(Bytes::from_static(b"of the handler"));
        assert!(unread.try_into_bytes().is_err());
    }
}
