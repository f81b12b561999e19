//! The body of a response, which is read before the caller gets the response: a body that breaks off is a lost answer, and the
//! same request gets it again.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::{Body, Response, ResponseBuilderExt as _};

/// Reads the body up to `limit` bytes. A stream of events, records or images is not read, and with the limit 0 nothing is.
///
/// # Errors
///
/// If the body breaks off before its end and before the limit.
pub(crate) async fn read(
    response: Response,
    limit: usize,
) -> reqwest::Result<http::Response<ReadBody>> {
    let is_stream = is_stream(response.headers());
    let url = response.url().clone();
    let (mut head, rest) = http::Response::from(response).into_parts();
    // The response that is made again of these parts takes its URL from here.
    if let Some(extensions) = http::response::Builder::new().url(url).extensions_mut() {
        head.extensions.extend(mem::take(extensions));
    }
    let mut body = ReadBody {
        frames: VecDeque::new(),
        small: BytesMut::new(),
        rest: Some(rest),
    };
    if !is_stream && limit > 0 {
        body.read(limit).await?;
    }
    Ok(http::Response::from_parts(head, body))
}

/// The response for the caller.
pub(crate) fn whole(response: http::Response<ReadBody>) -> Response {
    Response::from(response.map(Body::wrap))
}

/// Whether the body is a stream by its type, which may have no end. The layer for HTTP of the crate `idempotence` has the same types.
fn is_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    STREAMS.contains(&&*essence) || essence.ends_with("+json-seq")
}

const STREAMS: [&str; 5] = [
    "text/event-stream",
    "application/x-ndjson",
    "application/ndjson",
    "application/json-seq",
    "multipart/x-mixed-replace",
];

/// A body whose beginning was read.
pub(crate) struct ReadBody {
    frames: VecDeque<Frame<Bytes>>,
    /// The last bytes that were read, of small frames. A frame of one byte takes a hundred bytes of memory.
    small: BytesMut,
    /// `None` after the end.
    rest: Option<Body>,
}

impl ReadBody {
    /// The body, if it was read to its end.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let parts = self.frames.iter().filter_map(Frame::data_ref);
        let is_whole = self.rest.is_none();
        is_whole.then(|| parts.flatten().copied().collect())
    }

    async fn read(&mut self, limit: usize) -> reqwest::Result<()> {
        let mut length = 0;
        while let Some(rest) = &mut self.rest
            && length <= limit
        {
            match rest.frame().await.transpose()? {
                Some(frame) => {
                    length += frame.data_ref().map_or(0, Bytes::len);
                    self.push(frame);
                }
                None => self.rest = None,
            }
        }
        self.end_small();
        Ok(())
    }

    /// Adds a frame, and joins it with the frames before it if they are small.
    fn push(&mut self, frame: Frame<Bytes>) {
        match frame.data_ref() {
            Some(data) if data.len() < SMALL => {
                self.small.extend_from_slice(data);
                if self.small.len() >= SMALL {
                    self.end_small();
                }
            }
            _ => {
                self.end_small();
                self.frames.push_back(frame);
            }
        }
    }

    fn end_small(&mut self) {
        if !self.small.is_empty() {
            let joined = self.small.split().freeze();
            self.frames.push_back(Frame::data(joined));
        }
    }
}

impl http_body::Body for ReadBody {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Frame<Bytes>>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => match &mut self.rest {
                Some(rest) => Pin::new(rest).poll_frame(cx),
                None => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let read: usize = self
            .frames
            .iter()
            .filter_map(Frame::data_ref)
            .map(Bytes::len)
            .sum();
        let read = read as u64;
        let rest = self
            .rest
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

/// Frames with fewer bytes are joined.
const SMALL: usize = 8 * 1024;
