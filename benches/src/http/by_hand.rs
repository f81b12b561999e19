//! A middleware written by hand: `SET … NX GET PX` of an owner, the whole response stored as one value by a
//! compare-and-set, and a replay from the answer to the `SET`.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use redis::aio::ConnectionLike;
use redis::{Script, cmd};
use sha2::{Digest as _, Sha256};

use super::{KEPT, TTL, owner};

const LIMIT: usize = 1 << 20;

/// A claim: the digest of the request, then the owner. A response: the digest, then the status, the headers and the body.
const DIGEST: usize = 32;
/// The length of a claim.
const CLAIM: usize = DIGEST + 32;

#[derive(Clone)]
pub(super) struct Guard<C> {
    connection: C,
    replace: String,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Guard<C> {
    pub(super) async fn new(mut connection: C) -> Self {
        let replace = Script::new(
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
             redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
             return 1",
        );
        let replace = replace.load_async(&mut connection).await;
        Self {
            connection,
            replace: replace.expect("the script is loaded"),
        }
    }

    pub(super) fn guard(self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(self, guarded::<C>))
    }
}

async fn guarded<C: ConnectionLike>(
    State(mut guard): State<Guard<C>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = request.headers().get("idempotency-key").cloned() else {
        return next.run(request).await;
    };
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.expect("a small body");
    let digest = Sha256::new()
        .chain_update(head.method.as_str())
        .chain_update(head.uri.path())
        .chain_update(&body)
        .finalize();
    let key = [b"hand:payments:", key.as_bytes()].concat();
    let claim = [&digest, owner().as_bytes()].concat();
    let mut set = cmd("SET");
    set.arg(&key).arg(&claim).arg("NX").arg("GET");
    set.arg("PX").arg(TTL.as_secs() * 1000);
    let stored = set.query_async::<Option<Vec<u8>>>(&mut guard.connection);
    if let Some(stored) = stored.await.expect("an answer") {
        return replay(&digest, &stored);
    }
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    let (head, body) = response.into_parts();
    let body = to_bytes(body, LIMIT).await.expect("a small body");
    let mut done = digest.to_vec();
    done.extend_from_slice(head.status.as_str().as_bytes());
    for (name, value) in &head.headers {
        for part in [b"\n", name.as_str().as_bytes(), b":", value.as_bytes()] {
            done.extend_from_slice(part);
        }
    }
    done.extend_from_slice(b"\n\n");
    done.extend_from_slice(&body);
    let mut replace = cmd("EVALSHA");
    replace.arg(&guard.replace).arg(1).arg(&key).arg(&claim);
    replace.arg(done).arg(KEPT.as_secs() * 1000);
    let replaced = replace.query_async::<u64>(&mut guard.connection).await;
    assert_eq!(replaced.expect("an answer"), 1, "the request owns the key");
    Response::from_parts(head, Body::from(body))
}

/// The stored response. 409 while the first request is running, 422 if the request is another one.
fn replay(digest: &[u8], stored: &[u8]) -> Response {
    let (first, stored_after) = stored.split_at(DIGEST);
    if first != digest {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    }
    if stored.len() == CLAIM {
        return StatusCode::CONFLICT.into_response();
    }
    let end = stored_after.windows(2).position(|two| two == b"\n\n");
    let (head, body) = stored_after.split_at(end.expect("a head"));
    let mut response = Response::new(Body::from(body[2..].to_vec()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = StatusCode::from_bytes(lines.next().expect("a status"));
    *response.status_mut() = status.expect("a status");
    let headers = response.headers_mut();
    for line in lines {
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .expect("a header");
        headers.append(
            HeaderName::from_bytes(&line[..colon]).expect("a name"),
            HeaderValue::from_bytes(&line[colon + 1..]).expect("a value"),
        );
    }
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}
