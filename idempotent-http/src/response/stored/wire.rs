//! A stored response on a connection: hyper sends it as one response, with the headers and the body of the record. A fuzz target
//! also runs this check.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use ::http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, TRAILER, TRANSFER_ENCODING,
};
use ::http::{Response, StatusCode};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::body::ReplayBody;
use crate::response::stored::StoredResponse;

/// Two requests on one connection. Their client accepts trailers.
const REQUESTS: &[u8] = b"POST / HTTP/1.1\r\nhost: shop\r\nte: trailers\r\n\r\n\
    POST / HTTP/1.1\r\nhost: shop\r\nte: trailers\r\nconnection: close\r\n\r\n";

/// Checks that two requests get the response twice, and that the connection has no other byte.
pub(super) fn check(stored: &StoredResponse) {
    let sent = sent(stored);
    let mut rest = sent.as_slice();
    for _ in 0..2 {
        check_one(stored, &mut rest);
    }
    assert!(rest.is_empty(), "bytes after the last response");
}

/// What hyper sends if each of two requests gets the response.
fn sent(stored: &StoredResponse) -> Vec<u8> {
    let sent = Arc::default();
    let wire = Wire {
        requests: REQUESTS,
        sent: Arc::clone(&sent),
    };
    let answer = service_fn(|_| {
        let body = ReplayBody::<Empty<Bytes>>::whole(stored.body.clone(), stored.trailers.clone());
        let mut response = Response::new(body);
        *response.status_mut() = stored.status;
        *response.headers_mut() = stored.headers.clone();
        async { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    let mut connection = pin!(
        server
            .auto_date_header(false)
            .serve_connection(wire, answer)
    );
    // Nothing waits: the requests are in memory, and there is room for each byte. hyper closes the connection after the last one.
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = (0..1_000).map(|_| connection.as_mut().poll(&mut context));
    match polls.find(Poll::is_ready) {
        Some(Poll::Ready(ended)) => ended.expect("hyper sends the response"),
        _ => panic!("hyper does not close the connection"),
    }
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
    sent.clone()
}

/// Takes one response from the beginning of `sent`.
fn check_one(stored: &StoredResponse, sent: &mut &[u8]) {
    let status = line(sent);
    let code = stored.status.as_str();
    assert!(status.starts_with(format!("HTTP/1.1 {code} ").as_bytes()));
    let (mut headers, mut length, mut chunked) = (Vec::new(), None, false);
    for (name, value) in lines(sent) {
        let is = |other: HeaderName| name == other.as_str().as_bytes();
        if is(CONTENT_LENGTH) {
            let digits = str::from_utf8(value).expect("digits");
            let earlier = length.replace(digits.parse::<usize>().expect("a length"));
            assert_eq!(earlier, None, "one length");
        } else if is(TRANSFER_ENCODING) {
            assert!(!chunked && value == b"chunked", "one transfer encoding");
            chunked = true;
        // hyper joins the names of the trailers.
        } else if !is(CONNECTION) && !is(TRAILER) {
            headers.push((name, value));
        }
    }
    let mut stored_headers = stored.headers.clone();
    stored_headers.remove(TRAILER);
    assert_eq!(headers, of_map(&stored_headers));
    assert!(!chunked || length.is_none(), "one end of the body");
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = str::from_utf8(line(sent)).expect("digits");
            let size = usize::from_str_radix(size, 16).expect("a size");
            if size == 0 {
                break;
            }
            body.extend_from_slice(take(sent, size));
            assert_eq!(take(sent, 2), b"\r\n");
        }
        let trailers = stored.trailers.as_ref().map(of_map).unwrap_or_default();
        let are_stored = lines(sent).iter().all(|trailer| trailers.contains(trailer));
        assert!(are_stored, "a trailer that is not stored");
    } else {
        body.extend_from_slice(take(sent, length.unwrap_or_default()));
    }
    let has_body = !matches!(
        stored.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if has_body {
        assert_eq!(body, stored.body);
    }
}

fn of_map(headers: &HeaderMap) -> Vec<(&[u8], &[u8])> {
    let lines = headers.iter();
    lines
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect()
}

/// Takes lines of headers, and the empty line after them.
fn lines<'a>(sent: &mut &'a [u8]) -> Vec<(&'a [u8], &'a [u8])> {
    let mut lines = Vec::new();
    loop {
        let line = line(sent);
        if line.is_empty() {
            return lines;
        }
        let colon = line.windows(2).position(|two| two == b": ");
        let colon = colon.expect("a name and a value");
        lines.push((&line[..colon], &line[colon + 2..]));
    }
}

fn line<'a>(sent: &mut &'a [u8]) -> &'a [u8] {
    let end = sent.windows(2).position(|two| two == b"\r\n");
    let line = take(sent, end.expect("the end of a line"));
    take(sent, 2);
    line
}

fn take<'a>(sent: &mut &'a [u8], length: usize) -> &'a [u8] {
    sent.split_off(..length).expect("more bytes")
}

/// A connection in memory, which its client leaves open.
struct Wire {
    requests: &'static [u8],
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.requests.is_empty() {
            return Poll::Pending;
        }
        let length = self.requests.len().min(buffer.remaining());
        let (now, later) = self.requests.split_at(length);
        buffer.put_slice(now);
        self.requests = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
