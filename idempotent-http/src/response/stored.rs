//! The bytes of a stored response. Frozen: old and new processes share a store during a deploy.
//!
//! ```text
//! whole      first:u64 status:u16 flags:u8 headers trailers body…
//! tombstone  first:u64 location…
//! headers    count:u32, then for each line: length:u16 name length:u32 value
//! ```
//!
//! Numbers are big-endian. `first` is the time of the first response, in milliseconds since 1970. Bit 0 of `flags`: the first
//! response had the header `Trailer`. The body is the rest of the bytes, so a replay slices it from the record without a copy.
//!
//! A response is read only if a layer could have written it. Another writer of the store could else add a length that ends the
//! response early, so that the next client of the connection gets a response that no handler made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::{StatusCode, response};
use bytes::{Buf as _, BufMut as _, Bytes};
use idempotent_runtime::port::http::{Form, Stored};

use crate::response::headers;

/// The version of this format.
const VERSION: u32 = 1;

/// The first response announced its trailers.
const ANNOUNCES_TRAILERS: u8 = 1;

/// A response in a record.
pub(crate) struct StoredResponse {
    pub(crate) first: SystemTime,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) body: Bytes,
}

/// Writes a whole response. Of its headers and trailers it keeps `allowed`, else all but those that are never kept.
pub(crate) fn write(
    head: &response::Parts,
    (body, trailers): (&Bytes, Option<&HeaderMap>),
    allowed: Option<&[HeaderName]>,
    first: SystemTime,
) -> Stored {
    let mut bytes = Vec::with_capacity(256);
    bytes.put_u64(millis(first));
    bytes.put_u16(head.status.as_u16());
    let announces = head.headers.contains_key(header::TRAILER);
    bytes.put_u8(if announces { ANNOUNCES_TRAILERS } else { 0 });
    put_headers(&mut bytes, Some(&head.headers), allowed);
    put_headers(&mut bytes, trailers, allowed);
    // The body is copied once, into the record.
    stored(Form::Http, bytes, body.clone())
}

/// Writes that a response was made which is not kept.
pub(crate) fn write_tombstone(location: Option<&HeaderValue>, first: SystemTime) -> Stored {
    let mut bytes = Vec::new();
    bytes.put_u64(millis(first));
    bytes.extend_from_slice(location.map_or(&[], HeaderValue::as_bytes));
    stored(Form::HttpTombstone, bytes, Bytes::new())
}

/// Whether a layer stores a response with this status. After an interim response the final response would follow.
pub(crate) fn is_storable(status: StatusCode) -> bool {
    !status.is_informational()
}

/// Reads a whole response from a record; `None` if no layer of this version writes these bytes.
pub(crate) fn read(stored: &Stored) -> Option<StoredResponse> {
    if (stored.form, stored.schema) != (Form::Http, VERSION) {
        return None;
    }
    let mut bytes = stored.bytes.clone();
    let first = time(bytes.try_get_u64().ok()?)?;
    let status = StatusCode::from_u16(bytes.try_get_u16().ok()?).ok()?;
    let flags = bytes.try_get_u8().ok()?;
    if !is_storable(status) || flags & !ANNOUNCES_TRAILERS != 0 {
        return None;
    }
    let mut headers = get_headers(&mut bytes)?;
    let trailers = get_headers(&mut bytes)?;
    if flags & ANNOUNCES_TRAILERS != 0 {
        for name in trailers.keys() {
            headers.append(header::TRAILER, HeaderValue::from(name.clone()));
        }
    }
    Some(StoredResponse {
        first,
        status,
        headers,
        trailers: Some(trailers).filter(|trailers| !trailers.is_empty()),
        body: bytes,
    })
}

/// The first `Location` of a response that is not kept.
pub(crate) fn location(stored: &Stored) -> Option<HeaderValue> {
    let location = stored.bytes.slice(8.min(stored.bytes.len())..);
    HeaderValue::from_maybe_shared(location)
        .ok()
        .filter(|location| !location.is_empty())
}

fn stored(form: Form, bytes: Vec<u8>, tail: Bytes) -> Stored {
    Stored {
        failure: false,
        schema: VERSION,
        form,
        option_depth: 0,
        bytes: bytes.into(),
        tail,
    }
}

fn put_headers(bytes: &mut Vec<u8>, from: Option<&HeaderMap>, allowed: Option<&[HeaderName]>) {
    let is_allowed = |name: &HeaderName| allowed.is_none_or(|allowed| is_allowed(name, allowed));
    let lines = from.into_iter().flat_map(headers::kept);
    let at = bytes.len();
    bytes.put_u32(0);
    let mut count = 0_u32;
    for (name, value) in lines.filter(|(name, _)| is_allowed(name)) {
        // A name has less than 64 KiB, and a value less than 4 GiB: `http` refuses longer ones.
        let lengths = (
            u16::try_from(name.as_str().len()),
            u32::try_from(value.len()),
        );
        let (Ok(name_length), Ok(value_length)) = lengths else {
            continue;
        };
        bytes.put_u16(name_length);
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.put_u32(value_length);
        bytes.extend_from_slice(value.as_bytes());
        count += 1;
    }
    bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
}

/// Whether a list of headers allows a header. gRPC has its status in headers or trailers: it is no header that describes the result.
pub(crate) fn is_allowed(name: &HeaderName, allowed: &[HeaderName]) -> bool {
    let is_status = || name.as_str().starts_with("grpc-");
    allowed.contains(name) || is_status()
}

fn get_headers(bytes: &mut Bytes) -> Option<HeaderMap> {
    let count = bytes.try_get_u32().ok()?;
    let mut read = HeaderMap::new();
    for _ in 0..count {
        let length = bytes.try_get_u16().ok()?.into();
        let name = HeaderName::from_bytes(bytes.get(..length)?).ok()?;
        if headers::is_in_no_record(&name) {
            return None;
        }
        bytes.advance(length);
        let length = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
        let value = HeaderValue::from_maybe_shared(take(bytes, length)?).ok()?;
        if !headers::is_not_kept_any_more(&name) {
            read.try_append(name, value).ok()?;
        }
    }
    Some(read)
}

fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn time(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod wire;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;

    /// Writes a response, and reads its bytes out of a record.
    fn write(
        head: &response::Parts,
        content: (&Bytes, Option<&HeaderMap>),
        allowed: Option<&[HeaderName]>,
        first: SystemTime,
    ) -> Stored {
        properties::in_one_place(super::write(head, content, allowed, first))
    }

    fn head(lines: &[(&'static str, &'static str)]) -> response::Parts {
        let mut head = ::http::Response::new(()).into_parts().0;
        for (name, value) in lines {
            let name = HeaderName::from_static(name);
            head.headers.append(name, HeaderValue::from_static(value));
        }
        head
    }

    #[test]
    fn a_response_is_read_as_it_was_written() {
        let mut written = head(&[
            ("link", "<a>"),
            ("x-order", "7"),
            ("link", "<b>"),
            ("set-cookie", "session=1"),
        ]);
        written.status = StatusCode::CREATED;
        let (body, first) = (
            Bytes::from("paid"),
            UNIX_EPOCH + Duration::from_millis(1_234),
        );
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let stored = write(&written, (&body, Some(&trailers)), None, first);
        let read = read(&stored).expect("a response");
        let lines: Vec<_> = read.headers.iter().collect();
        let kept = [("link", "<a>"), ("link", "<b>"), ("x-order", "7")];
        assert_eq!(lines.len(), kept.len());
        for ((name, value), kept) in lines.iter().zip(kept) {
            assert_eq!((name.as_str(), value.to_str().unwrap()), kept);
        }
        assert_eq!(read.status, StatusCode::CREATED);
        assert_eq!((read.body, read.first), (body, first));
        assert_eq!(read.trailers, Some(trailers));
    }

    #[test]
    fn the_format_is_frozen() {
        let head = head(&[("etag", "\"1\"")]);
        let first = UNIX_EPOCH + Duration::from_millis(1);
        let stored = write(&head, (&Bytes::from("ok"), None), None, first);
        let expected = b"\0\0\0\0\0\0\0\x01\0\xc8\0\0\0\0\x01\0\x04etag\0\0\0\x03\"1\"\0\0\0\0ok";
        assert_eq!(stored.bytes, expected.as_slice());
        assert_eq!((stored.form.name(), stored.schema), ("http", 1));
        let place = HeaderValue::from_static("/orders/7");
        let stored = write_tombstone(Some(&place), first);
        assert_eq!(stored.bytes, b"\0\0\0\0\0\0\0\x01/orders/7".as_slice());
        assert_eq!((stored.form.name(), stored.schema), ("http-gone", 1));
        assert_eq!(location(&stored), Some(place));
    }

    /// A record with these headers and trailers, as another writer of the store may make it.
    fn forged(status: u16, lines: [&[(&str, &str)]; 2], flags: u8) -> Stored {
        let mut bytes = Vec::new();
        bytes.put_u64(1);
        bytes.put_u16(status);
        bytes.put_u8(flags);
        for lines in lines {
            bytes.put_u32(lines.len().try_into().unwrap());
            for (name, value) in lines {
                bytes.put_u16(name.len().try_into().unwrap());
                bytes.extend_from_slice(name.as_bytes());
                bytes.put_u32(value.len().try_into().unwrap());
                bytes.extend_from_slice(value.as_bytes());
            }
        }
        stored(Form::Http, bytes, Bytes::from("paid"))
    }

    #[test]
    fn a_forged_header_that_no_layer_writes_makes_a_response_unreadable() {
        fn is_read(lines: [&[(&str, &str)]; 2]) -> bool {
            read(&properties::in_one_place(forged(200, lines, 0))).is_some()
        }

        assert!(is_read([&[("etag", "1")], &[("grpc-status", "0")]]));
        for line in [
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("upgrade", "h2c"),
            ("trailer", "etag"),
            ("set-cookie", "session=1"),
            ("access-control-allow-origin", "*"),
        ] {
            let line = &[line];
            assert!(!is_read([line, &[]]), "{line:?}");
            assert!(!is_read([&[], line]), "{line:?} in trailers");
        }
    }

    #[test]
    fn a_forged_status_or_flag_that_no_layer_writes_makes_a_response_unreadable() {
        let read =
            |status, flags| read(&properties::in_one_place(forged(status, [&[], &[]], flags)));
        assert!(read(200, ANNOUNCES_TRAILERS).is_some());
        for status in [0, 99, 100, 101, 103, 199, 1000] {
            assert!(read(status, 0).is_none(), "{status}");
        }
        assert!(read(200, 2).is_none());
    }

    #[test]
    fn the_body_of_a_replay_is_not_copied() {
        let stored = write(&head(&[]), (&Bytes::from("paid"), None), None, UNIX_EPOCH);
        let read = read(&stored).expect("a response");
        let record = stored.bytes.as_ptr_range();
        assert!(record.contains(&read.body.as_ptr()));
    }

    #[test]
    fn an_allowed_header_is_kept_and_no_other() {
        let written = head(&[("location", "/7"), ("x-order", "7"), ("set-cookie", "a")]);
        let allowed = [header::LOCATION, header::SET_COOKIE];
        let stored = write(&written, (&Bytes::new(), None), Some(&allowed), UNIX_EPOCH);
        let read = read(&stored).expect("a response");
        assert_eq!(read.headers.len(), 1);
        assert_eq!(read.headers[header::LOCATION], "/7");
    }

    #[test]
    fn a_list_of_headers_also_filters_trailers_but_not_the_status_of_grpc() {
        let mut trailers = HeaderMap::new();
        for name in ["x-sum", "x-order", "grpc-status", "grpc-message"] {
            trailers.insert(name, HeaderValue::from_static("0"));
        }
        let content = (&Bytes::new(), Some(&trailers));
        let allowed = [HeaderName::from_static("x-order")];
        let stored = write(&head(&[]), content, Some(&allowed), UNIX_EPOCH);
        let read = read(&stored).and_then(|read| read.trailers);
        let read = read.expect("trailers");
        let names: Vec<_> = read.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-order", "grpc-status", "grpc-message"]);
    }

    #[test]
    fn a_header_that_earlier_versions_stored_is_left_out_of_a_replay() {
        let lines = [
            ("expires", "0"),
            ("x-csrf-token", "a"),
            ("etag", "\"1\""),
            ("authorization", "Bearer a"),
        ];
        let stored = forged(200, [&lines, &lines], 0);
        let read = read(&properties::in_one_place(stored)).expect("a response");
        for headers in [read.headers, read.trailers.expect("trailers")] {
            let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["etag"]);
        }
    }

    #[test]
    fn an_arbitrary_response_is_read_as_it_was_written() {
        let mut checked = 0;
        cases(400, |u| {
            properties::check_response(u)?;
            checked += 1;
            Ok(())
        });
        assert!(checked > 1_000, "{checked}");
    }

    #[test]
    fn an_arbitrary_damaged_response_is_read_or_refused() {
        cases(400, properties::check_damage);
    }

    #[test]
    fn an_arbitrary_forged_header_is_sent_as_it_is_or_refused() {
        cases(400, properties::check_forged);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused() {
        cases(100, |u| {
            properties::check_bytes(&u.arbitrary::<Vec<u8>>()?.into());
            Ok(())
        });
    }

    #[test]
    fn a_later_version_is_not_read() {
        let stored = write(&head(&[]), (&Bytes::new(), None), None, UNIX_EPOCH);
        let later = Stored {
            schema: VERSION + 1,
            ..stored
        };
        assert!(read(&later).is_none());
    }
}
