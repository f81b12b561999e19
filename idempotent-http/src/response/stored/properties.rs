//! Any response is read as it was written, and any bytes are read or refused. A fuzz target also runs these checks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::header::{HeaderMap, HeaderName, HeaderValue, TRAILER};
use ::http::{Response, StatusCode, response};
use arbtest::arbitrary::{Result, Unstructured};
use bytes::Bytes;
use idempotent_runtime::port::http::{Form, Stored};

use super::wire;
use crate::response::headers::kept;
use crate::response::stored::{is_allowed, location, read, write, write_tombstone};

/// Names that are stored, and names that are not.
const NAMES: [&str; 14] = [
    "content-length",
    "content-type",
    "connection",
    "date",
    "grpc-status",
    "link",
    "location",
    "proxy-status",
    "set-cookie",
    "trailer",
    "transfer-encoding",
    "x-hop",
    "x-order",
    "x-ratelimit-limit",
];

/// A result as a record has it.
pub(super) fn in_one_place(stored: Stored) -> Stored {
    Stored {
        bytes: [stored.bytes, stored.tail].concat().into(),
        tail: Bytes::new(),
        ..stored
    }
}

/// A response as a handler returns it.
struct AnyResponse {
    head: response::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
    first: SystemTime,
}

impl AnyResponse {
    fn any(u: &mut Unstructured<'_>) -> Result<Self> {
        let mut response = Response::new(());
        let status = StatusCode::from_u16(u.int_in_range(200..=999)?);
        *response.status_mut() = status.expect("three digits");
        *response.headers_mut() = any_headers(u)?;
        let trailers = if u.arbitrary()? {
            Some(any_headers(u)?)
        } else {
            None
        };
        // A stored time has whole milliseconds.
        let first = UNIX_EPOCH + Duration::from_millis(u.int_in_range(0..=1 << 45)?);
        Ok(Self {
            head: response.into_parts().0,
            trailers,
            first,
            body: u.arbitrary::<Vec<u8>>()?.into(),
        })
    }

    fn write(&self, allowed: Option<&[HeaderName]>) -> Stored {
        let content = (&self.body, self.trailers.as_ref());
        in_one_place(write(&self.head, content, allowed, self.first))
    }
}

fn any_headers(u: &mut Unstructured<'_>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for _ in 0..u.int_in_range(0..=6)? {
        let name = if u.ratio(1, 4)? {
            HeaderName::from_bytes(&u.arbitrary::<Vec<u8>>()?).ok()
        } else {
            Some(HeaderName::from_static(u.choose(&NAMES)?))
        };
        let value = if u.ratio(1, 4)? {
            HeaderValue::from_bytes(&u.arbitrary::<Vec<u8>>()?).ok()
        } else {
            Some(HeaderValue::from_static(u.choose(&NAMES)?))
        };
        if let (Some(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    Ok(headers)
}

fn lines(headers: &HeaderMap) -> Vec<(&HeaderName, &HeaderValue)> {
    headers.iter().collect()
}

/// Checks that any response is read and sent as it was written, without the headers that are not stored.
pub(crate) fn check_response(u: &mut Unstructured<'_>) -> Result<()> {
    let written = AnyResponse::any(u)?;
    let allowed = if u.ratio(1, 4)? {
        Some([HeaderName::from_static(u.choose(&NAMES)?)])
    } else {
        None
    };
    let allowed = allowed.as_ref().map(<[_; 1]>::as_slice);
    let read = read(&written.write(allowed)).expect("a response of this version");
    wire::check(&read);
    assert_eq!(read.status, written.head.status);
    assert_eq!((&read.body, read.first), (&written.body, written.first));

    let trailers = written.trailers.unwrap_or_default();
    let is_allowed = |name: &HeaderName| allowed.is_none_or(|allowed| is_allowed(name, allowed));
    let trailers = collected(kept(&trailers).filter(|(name, _)| is_allowed(name)));
    assert_eq!(lines(&read.trailers.unwrap_or_default()), lines(&trailers));
    let mut headers = collected(kept(&written.head.headers).filter(|(name, _)| is_allowed(name)));
    if written.head.headers.contains_key(TRAILER) {
        for name in trailers.keys() {
            headers.append(TRAILER, name.clone().into());
        }
    }
    assert_eq!(lines(&read.headers), lines(&headers));
    Ok(())
}

fn collected<'a>(lines: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value.clone());
    }
    headers
}

/// Checks that any bytes in the place of a response are refused, or are a response with the same body, which hyper sends as it is.
pub(crate) fn check_bytes(bytes: &Bytes) {
    for form in Form::ALL {
        let stored = Stored {
            failure: false,
            schema: 1,
            form,
            option_depth: 0,
            bytes: bytes.clone(),
            tail: Bytes::new(),
        };
        if let Some(read) = read(&stored) {
            assert_eq!(form, Form::Http);
            assert!(bytes.ends_with(&read.body));
            wire::check(&read);
        }
        if let Some(place) = location(&stored) {
            let again = write_tombstone(Some(&place), UNIX_EPOCH);
            assert_eq!(location(&again), Some(place));
        }
    }
}

/// A length or a connection that a writer of the store puts into the headers or trailers of a record.
pub(crate) fn check_forged(u: &mut Unstructured<'_>) -> Result<()> {
    let written = AnyResponse::any(u)?;
    let bytes = written.write(None).bytes;
    let name = *u.choose(&NAMES)?;
    let value = *u.choose(&["0", "2", "chunked", "close", "200"])?;
    // The headers begin after the time, the status and the flags, with their count.
    let (before, headers) = bytes.split_at(11);
    let (count, rest) = headers.split_first_chunk().expect("a count");
    let count = u32::from_be_bytes(*count) + 1;
    let mut forged = before.to_vec();
    forged.extend_from_slice(&count.to_be_bytes());
    forged.extend_from_slice(&u16::try_from(name.len()).expect("short").to_be_bytes());
    forged.extend_from_slice(name.as_bytes());
    forged.extend_from_slice(&u32::try_from(value.len()).expect("short").to_be_bytes());
    forged.extend_from_slice(value.as_bytes());
    forged.extend_from_slice(rest);
    check_bytes(&forged.into());
    Ok(())
}

/// Checks that a stored response is read or refused after some of its bytes were changed, or its end was lost.
pub(crate) fn check_damage(u: &mut Unstructured<'_>) -> Result<()> {
    let mut bytes = AnyResponse::any(u)?.write(None).bytes.to_vec();
    for _ in 0..u.int_in_range(1..=3)? {
        let at = u.choose_index(bytes.len())?;
        bytes[at] = u.arbitrary()?;
    }
    if u.arbitrary()? {
        bytes.truncate(u.choose_index(bytes.len())?);
    }
    check_bytes(&bytes.into());
    Ok(())
}
