//! Which headers of a response are stored and replayed.
//!
//! A stored header is sent again, later, to another connection, and perhaps to another browser. So a header is left out if it
//! describes the connection (RFC 9110, section 7.6.1), the moment of the first response, or a decision about the first client:
//! its session, its origin, its rate limit.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Whether the header is never stored, in no response.
pub(crate) fn is_never_kept(name: &HeaderName) -> bool {
    is_in_no_record(name) || is_not_kept_any_more(name)
}

/// Whether no version has ever stored the header. A record that has it was not written by a layer. Frozen.
pub(crate) fn is_in_no_record(name: &HeaderName) -> bool {
    // A `match` of texts compares their lengths first.
    let is_listed = matches!(
        name.as_str(),
        // The connection.
        "connection"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "alt-svc"
            // A replay has its own length.
            | "content-length"
            // The session of the first client.
            | "set-cookie"
            | "www-authenticate"
            | "authentication-info"
            // The moment of the first response, and the server that sent it.
            | "date"
            | "age"
            | "server"
            | "retry-after"
            | "server-timing"
            // The names of one request in traces and logs.
            | "traceparent"
            | "tracestate"
            | "x-request-id"
    );
    let mut families = IN_NO_RECORD.iter();
    is_listed || families.any(|family| name.as_str().starts_with(family))
}

/// Headers that start with these are in no record. Frozen.
const IN_NO_RECORD: [&str; 4] = ["proxy-", "access-control-", "ratelimit", "x-ratelimit-"];

/// Whether earlier versions stored the header. A replay of their records leaves it out.
pub(crate) fn is_not_kept_any_more(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_listed = matches!(
        name,
        // The session of the first client, and what its browser may keep or measure.
        "set-cookie2" | "authorization" | "clear-site-data" | "timing-allow-origin"
            // The moment of the first response, and the servers that passed it on.
            | "expires"
            | "via"
            // The names of one request in traces and logs.
            | "b3"
            | "baggage"
            | "traceresponse"
            | "x-amz-id-2"
            | "x-amz-cf-id"
            | "x-ms-activity-id"
            | "x-cloud-trace-context"
            | "x-guploader-uploadid"
            | "x-vercel-id"
            | "cf-ray"
    );
    is_listed
        || is_request_id(name)
        || name.ends_with("-token")
        || name.starts_with("x-b3-")
        // `contains` would call `memcmp` for each place in so short a text.
        || name.as_bytes().windows(7).any(|part| part == b"session")
        || name.as_bytes().windows(4).any(|part| part == b"csrf")
}

/// Whether the header names one request, or one trace, for support and logs: `Request-Id`, `X-Ms-Request-Id`, `X-Amzn-RequestId`.
fn is_request_id(name: &str) -> bool {
    const ENDS: [&str; 5] = [
        "request-id",
        "requestid",
        "correlation-id",
        "trace-id",
        "debug-id",
    ];
    // These are keys: each repetition of a request has the same.
    let is_key = || matches!(name, "paypal-request-id" | "repeatability-request-id");
    ENDS.iter().any(|end| name.ends_with(end)) && !is_key()
}

/// The headers of a response that are stored, with their repetitions, in their order.
///
/// It leaves out the headers that are never stored, and the headers that `Connection` names.
pub(crate) fn kept(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let has_connection = headers.contains_key(header::CONNECTION);
    headers.iter().filter(move |(name, _)| {
        let is_named = || has_connection && is_named_by_connection(headers, name);
        !is_never_kept(name) && !is_named()
    })
}

fn is_named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    let mut names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    names.any(|named| {
        named
            .trim_ascii()
            .eq_ignore_ascii_case(name.as_str().as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        kept(headers).map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_header_of_one_connection_client_or_moment_is_not_kept() {
        for name in [
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Proxy-Authenticate",
            "Proxy-Authentication-Info",
            "Proxy-Connection",
            "Set-Cookie",
            "WWW-Authenticate",
            "Authentication-Info",
            "Date",
            "Age",
            "Server",
            "Alt-Svc",
            "Content-Length",
            "Access-Control-Allow-Origin",
            "Access-Control-Expose-Headers",
            "RateLimit",
            "RateLimit-Policy",
            "RateLimit-Remaining",
            "X-RateLimit-Limit",
            "Retry-After",
            "Server-Timing",
            "Traceparent",
            "X-Request-Id",
            "Set-Cookie2",
            "Authorization",
            "Clear-Site-Data",
            "Timing-Allow-Origin",
            "Expires",
            "Via",
            "X-Auth-Token",
            "X-Session-Id",
            "Sessionid",
            "X-CSRF",
            "Csrf-Nonce",
            "X-B3-TraceId",
            "B3",
            "Baggage",
            "TraceResponse",
            "Request-Id",
            "Correlation-Id",
            "X-Correlation-Id",
            "X-Trace-Id",
            "X-Amzn-Trace-Id",
            "X-Amzn-RequestId",
            "X-Amz-Request-Id",
            "X-Amz-Id-2",
            "X-Ms-Request-Id",
            "X-Ms-Client-Request-Id",
            "X-Ms-Correlation-Request-Id",
            "Apim-Request-Id",
            "Paypal-Debug-Id",
            "Cko-Request-Id",
            "Klarna-Correlation-Id",
            "Square-Trace-Id",
            "X-Amz-Cf-Id",
            "Fly-Request-Id",
            "X-Cloud-Trace-Context",
            "X-Datadog-Trace-Id",
            "Uber-Trace-Id",
            "CF-Ray",
        ] {
            assert!(names(&map(&[(name, "x")])).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_header_that_describes_the_result_is_kept() {
        for name in [
            "location",
            "content-location",
            "etag",
            "last-modified",
            "link",
            "content-type",
            "content-language",
            "vary",
            "cache-control",
            "content-disposition",
            "x-order",
            "x-rate",
            "proxied-by",
            "x-tokens",
            "token-count",
            "x-trace",
            "x-request-ids",
            "paypal-request-id",
            "repeatability-request-id",
        ] {
            assert_eq!(names(&map(&[(name, "x")])), [name]);
        }
    }

    #[test]
    fn a_header_that_connection_names_is_not_kept() {
        let headers = map(&[
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("connection", "x-other"),
            ("x-other", "2"),
            ("x-order", "3"),
        ]);
        assert_eq!(names(&headers), ["x-order"]);
    }

    #[test]
    fn repeated_headers_are_kept_in_their_order() {
        let headers = map(&[("link", "<a>"), ("etag", "\"1\""), ("link", "<b>")]);
        let links: Vec<_> = kept(&headers)
            .filter(|(name, _)| *name == "link")
            .map(|(_, value)| value)
            .collect();
        assert_eq!(links, ["<a>", "<b>"]);
    }
}
