//! A middleware written by hand: `SET … NX GET PX` of an owner, the whole response stored as one value by a
//! compare-and-set, and a replay from the answer to the `SET`. The handler survives a client that disconnects, and a response
//! of the class 5xx frees the key.

use std::sync::Arc;

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
    /// axum clones the state of a middleware several times for each request.
    scripts: Arc<Scripts>,
}

/// The hashes of the scripts.
struct Scripts {
    replace: String,
    remove: String,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Guard<C> {
    pub(super) async fn new(mut connection: C) -> Self {
        let replace = Script::new(
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
             redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
             return 1",
        );
        let remove = Script::new(
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
             return redis.call('DEL', KEYS[1])",
        );
        let replace = replace.load_async(&mut connection).await;
        let remove = remove.load_async(&mut connection).await;
        let scripts = Arc::new(Scripts {
            replace: replace.expect("the script is loaded"),
            remove: remove.expect("the script is loaded"),
        });
        Self {
            connection,
            scripts,
        }
    }

    pub(super) fn guard(self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(self, guarded::<C>))
    }
}

async fn guarded<C: ConnectionLike + Clone + Send + Sync + 'static>(
    State(mut guard): State<Guard<C>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = request.headers().get("idempotency-key").cloned() else {
        return next.run(request).await;
    };
    let Some(key) = key_in(&key) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let digest = Sha256::new()
        .chain_update(head.method.as_str())
        .chain_update(" ")
        .chain_update(head.uri.path())
        .chain_update("?")
        .chain_update(head.uri.query().unwrap_or_default())
        .chain_update("\n")
        .chain_update(&body)
        .finalize();
    let key = [b"hand:payments:", key].concat();
    let claim = [&digest, owner().as_bytes()].concat();
    let mut set = cmd("SET");
    set.arg(&key).arg(&claim).arg("NX").arg("GET");
    set.arg("PX").arg(TTL.as_secs() * 1000);
    let stored = set.query_async::<Option<Vec<u8>>>(&mut guard.connection);
    match stored.await {
        Ok(Some(stored)) => return replay(&digest, &stored),
        Ok(None) => {}
        Err(_) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
    let request = Request::from_parts(head, Body::from(body));
    // axum drops a handler whose client has disconnected. The charge would be made, and not stored.
    let run = tokio::spawn(guard.run(key, claim, request, next));
    let response = run.await;
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// The key in this header: 1 to 255 visible characters, in quotes or without. `None` if it has no key.
fn key_in(header: &HeaderValue) -> Option<&[u8]> {
    let text = header.as_bytes();
    let quoted = text.strip_prefix(b"\"");
    let text = quoted.map_or(Some(text), |text| text.strip_suffix(b"\""))?;
    let is_visible = |byte: &u8| matches!(byte, b'!' | b'#'..=b'~');
    ((1..=255).contains(&text.len()) && text.iter().all(is_visible)).then_some(text)
}

impl<C: ConnectionLike> Guard<C> {
    /// Runs the handler, and stores its response or frees the key.
    async fn run(mut self, key: Vec<u8>, claim: Vec<u8>, request: Request, next: Next) -> Response {
        let (head, body) = next.run(request).await.into_parts();
        let body = to_bytes(body, LIMIT).await.expect("a small body");
        let mut end = cmd("EVALSHA");
        if head.status.is_server_error() {
            end.arg(&self.scripts.remove).arg(1).arg(&key).arg(&claim);
        } else {
            let mut done = claim[..DIGEST].to_vec();
            done.extend_from_slice(head.status.as_str().as_bytes());
            for (name, value) in &head.headers {
                for part in [b"\n", name.as_str().as_bytes(), b":", value.as_bytes()] {
                    done.extend_from_slice(part);
                }
            }
            done.extend_from_slice(b"\n\n");
            done.extend_from_slice(&body);
            end.arg(&self.scripts.replace).arg(1).arg(&key).arg(&claim);
            end.arg(done).arg(KEPT.as_secs() * 1000);
        }
        let ended = end.query_async::<u64>(&mut self.connection).await;
        assert_eq!(ended.expect("an answer"), 1, "the request owns the key");
        Response::from_parts(head, Body::from(body))
    }
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
