//! What a status of gRPC means for the key.

use ::http::{HeaderMap, HeaderValue, StatusCode, response};
use idempotent_runtime::port::http::grpc::{CODE, STATUS};

use crate::response::decision::Decision;

/// The metadata key by which a method decides about its key. The layer removes it from the response.
pub(crate) const DECISION: &str = "idempotence-decision";

/// The statuses that are stored: `OK`, `NOT_FOUND` and `ALREADY_EXISTS`, as 2xx, 404 and 409 are.
const STORED: [&[u8]; 3] = [b"0", b"5", b"6"];
/// The statuses that hold the key, as 408 and 504 do: `CANCELLED` and `DEADLINE_EXCEEDED`. The method was stopped in the middle.
const HELD: [&[u8]; 2] = [b"1", b"4"];

/// The statuses of HTTP that hold the key if there is no status of gRPC.
const STOPPED: [StatusCode; 2] = [StatusCode::REQUEST_TIMEOUT, StatusCode::GATEWAY_TIMEOUT];

/// The decision of the method, else by the status of the call.
///
/// If the body is not in memory (`!is_whole`), its trailers are not known yet. So only the fact that the method ran can be stored.
pub(crate) fn decide(
    head: &mut response::Parts,
    trailers: Option<&HeaderMap>,
    is_whole: bool,
) -> Decision {
    let chosen = head.headers.remove(DECISION);
    if let Some(chosen) = chosen.as_ref().and_then(by_name) {
        return chosen;
    }
    if let Some(decision) = head.extensions.get::<Decision>() {
        return *decision;
    }
    // A guarded call of the method was refused: the reason is about this moment.
    match head.headers.get(CODE).map(HeaderValue::as_bytes) {
        Some(b"lease_lost") => return Decision::Hold,
        Some(_) => return Decision::Release,
        None => {}
    }
    let in_trailers = || trailers.and_then(|trailers| trailers.get(STATUS));
    let status = head.headers.get(STATUS).or_else(in_trailers);
    match status.map(HeaderValue::as_bytes) {
        Some(status) if STORED.contains(&status) => Decision::Store,
        Some(status) if HELD.contains(&status) => Decision::Hold,
        // A layer inside of this layer has stopped the method.
        None if STOPPED.contains(&head.status) => Decision::Hold,
        None if !is_whole => Decision::Store,
        _ => Decision::Release,
    }
}

/// The name of a decision in metadata.
#[cfg_attr(not(feature = "tonic"), allow(dead_code, reason = "tonic writes it"))]
pub(crate) const fn name_of(decision: Decision) -> &'static str {
    match decision {
        Decision::Store => "store",
        Decision::Release => "release",
        Decision::Hold => "hold",
    }
}

fn by_name(name: &HeaderValue) -> Option<Decision> {
    let mut all = [Decision::Store, Decision::Release, Decision::Hold].into_iter();
    all.find(|decision| name == name_of(*decision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            let name = ::http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    fn decided(head: &[(&'static str, &'static str)], trailers: Option<&HeaderMap>) -> Decision {
        let mut parts = ::http::Response::new(()).into_parts().0;
        parts.headers = map(head);
        let decision = decide(&mut parts, trailers, trailers.is_some());
        assert!(!parts.headers.contains_key(DECISION));
        decision
    }

    #[test]
    fn the_status_decides_in_trailers_and_in_headers() {
        for code in 0..=16_u8 {
            let code: &'static str = code.to_string().leak();
            let expected = match code {
                "0" | "5" | "6" => Decision::Store,
                "1" | "4" => Decision::Hold,
                _ => Decision::Release,
            };
            let line = [("grpc-status", code)];
            assert_eq!(decided(&[], Some(&map(&line))), expected, "{code}");
            assert_eq!(decided(&line, Some(&map(&[]))), expected, "{code}");
            assert_eq!(decided(&line, None), expected, "{code}");
        }
        assert_eq!(decided(&[], Some(&map(&[]))), Decision::Release);
        assert_eq!(decided(&[], None), Decision::Store);
    }

    #[test]
    fn a_method_that_a_timeout_has_stopped_keeps_its_key() {
        for (status, expected) in [
            (408, Decision::Hold),
            (504, Decision::Hold),
            (503, Decision::Release),
        ] {
            for trailers in [None, Some(&HeaderMap::new())] {
                let mut head = ::http::Response::new(()).into_parts().0;
                head.status = StatusCode::from_u16(status).expect("a status");
                let is_whole = status == 503 || trailers.is_some();
                assert_eq!(decide(&mut head, trailers, is_whole), expected, "{status}");
            }
        }
    }

    #[test]
    fn the_method_decides_by_metadata() {
        for (name, decision) in [
            ("store", Decision::Store),
            ("release", Decision::Release),
            ("hold", Decision::Hold),
        ] {
            let lines = [("grpc-status", "0"), (DECISION, name)];
            assert_eq!(decided(&lines, None), decision);
        }
    }

    #[test]
    fn a_refused_call_frees_the_key_and_a_lost_lease_holds_it() {
        let refused = |code| decided(&[("grpc-status", "6"), (CODE, code)], None);
        assert_eq!(refused("taken"), Decision::Release);
        assert_eq!(refused("lease_lost"), Decision::Hold);
    }
}
