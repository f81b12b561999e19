//! What a content type says, without its parameters.

use ::http::HeaderValue;

/// The type and the subtype of a content type, as they were sent, without parameters. Empty if there is no content type.
pub(crate) fn essence(content_type: Option<&HeaderValue>) -> &[u8] {
    let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
    let end = content_type.iter().position(|byte| *byte == b';');
    content_type[..end.unwrap_or(content_type.len())].trim_ascii()
}

/// The type and the subtype of a content type that is text. A value with other bytes than visible ASCII is no content type.
pub(crate) fn text(content_type: Option<&HeaderValue>) -> Option<&str> {
    let text = content_type?.to_str().ok()?;
    let end = text.bytes().position(|byte| byte == b';');
    Some(text[..end.unwrap_or(text.len())].trim_ascii())
}

/// Whether a body of this content type is JSON: RFC 8259, and the suffix `+json` of RFC 6839.
pub(crate) fn is_json(content_type: Option<&HeaderValue>) -> bool {
    text(content_type).is_some_and(|essence| {
        let is = |name: &str| essence.eq_ignore_ascii_case(name);
        let suffix = essence.as_bytes().last_chunk::<5>();
        is("application/json")
            || is("text/json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json"))
    })
}

/// Whether a body of this content type is a file or has files, so that it is not JSON.
pub(crate) fn is_file(content_type: Option<&HeaderValue>) -> bool {
    const FILES: [&[u8]; 5] = [b"image/", b"audio/", b"video/", b"font/", b"multipart/"];
    FILES.iter().any(|name| starts_with(content_type, name))
        || essence(content_type).eq_ignore_ascii_case(b"application/octet-stream")
}

/// Whether a body of this content type is a form without files.
pub(crate) fn is_form(content_type: Option<&HeaderValue>) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// Whether this is the content type of gRPC.
pub(crate) fn is_grpc(content_type: Option<&HeaderValue>) -> bool {
    starts_with(content_type, GRPC)
        && matches!(essence(content_type)[GRPC.len()..], [] | [b'+' | b' ', ..])
}

const GRPC: &[u8] = b"application/grpc";

/// Whether a body of this content type is a stream of events, records or images, which may have no end.
pub(crate) fn is_stream(content_type: Option<&HeaderValue>) -> bool {
    let essence = essence(content_type);
    let is = |name: &&[u8]| essence.eq_ignore_ascii_case(name);
    let suffix = essence.last_chunk::<9>();
    STREAMS.iter().any(is) || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json-seq"))
}

const STREAMS: [&[u8]; 5] = [
    b"text/event-stream",
    b"application/x-ndjson",
    b"application/ndjson",
    b"application/json-seq",
    b"multipart/x-mixed-replace",
];

/// Whether the content type starts with this name. Most content types do not, so the end of their essence is not looked for.
fn starts_with(content_type: Option<&HeaderValue>, name: &[u8]) -> bool {
    let value = content_type.map_or(&b""[..], HeaderValue::as_bytes);
    let start = value.trim_ascii_start().get(..name.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_do_not_count() {
        let found = |is: fn(Option<&HeaderValue>) -> bool, text: &'static str| {
            is(Some(&HeaderValue::from_static(text)))
        };
        for text in [
            "application/json",
            "Text/JSON ; charset=utf-8",
            "application/problem+Json",
        ] {
            assert!(found(is_json, text), "{text}");
        }
        for text in [
            "",
            "+jso",
            "json",
            "application/jsonl",
            "text/plain; a=+json",
        ] {
            assert!(!found(is_json, text), "{text}");
        }
        for text in [
            "application/grpc",
            "Application/GRPC+proto",
            "application/grpc;a=b",
        ] {
            assert!(found(is_grpc, text), "{text}");
        }
        for text in ["", "application/grp", "application/grpc-web"] {
            assert!(!found(is_grpc, text), "{text}");
        }
        for text in [
            "TEXT/event-stream; charset=utf-8",
            "application/x-ndjson",
            "application/NDJSON",
            "application/json-seq;charset=utf-8",
            "application/geo+json-seq",
            "multipart/x-mixed-replace; boundary=a",
        ] {
            assert!(found(is_stream, text), "{text}");
        }
        for text in ["text/event-streams", "application/json", "multipart/mixed"] {
            assert!(!found(is_stream, text), "{text}");
        }
        assert!(!is_json(None) && !is_grpc(None) && !is_stream(None));
    }

    #[test]
    fn a_parameter_that_is_not_ascii_hides_only_the_text() {
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
        assert!(!is_json(Some(&value(b"application/json; a=\xff"))));
        assert!(is_grpc(Some(&value(b"application/grpc; a=\xff"))));
        assert!(is_stream(Some(&value(b"text/event-stream; a=\xff"))));
    }
}
