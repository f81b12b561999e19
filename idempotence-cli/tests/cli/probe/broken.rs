//! A shop that keeps its keys by hand, rightly or with one fault.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{OriginalUri, State};
use axum::http::header::{AUTHORIZATION, DATE, LOCATION, SET_COOKIE};
use axum::http::response::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;

use super::shop::{Shop, serve};

/// What a service does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NoKeys,
    CheckThenAct,
    KeyWithoutUser,
    KeyWithoutPath,
    KeyCut,
    AnyTextIsAKey,
    KeyWithoutQuotes,
    KeyIsOptional,
    EqualBodiesAreEqualOrders,
    PayloadIgnored,
    MismatchIsConflict,
    PlainRefusals,
    NoRetryAfter,
    FailuresStored,
    CookiesReplayed,
    DateReplayed,
    BodyForgotten,
    StatusForgotten,
    HeadersForgotten,
    StuckAfterHangUp,
    StuckAfterDuplicate,
    FreedAtHangUp,
    DuplicateIsFailure,
}

impl Fault {
    /// Each fault, with the rules that it breaks.
    pub(crate) const CASES: &[(Self, &[&str])] = &[
        (
            Self::NoKeys,
            &[
                "replay-runs-once",
                "replay-body",
                "replay-headers",
                "storm-runs-once",
                "mismatch-refused",
                "hang-up-runs-once",
            ],
        ),
        (Self::CheckThenAct, &["storm-runs-once"]),
        (Self::KeyWithoutUser, &["other-user"]),
        (Self::KeyWithoutPath, &["other-path"]),
        (Self::KeyCut, &["key-long"]),
        (
            Self::AnyTextIsAKey,
            &["key-empty", "key-unterminated", "key-repeated"],
        ),
        (Self::KeyWithoutQuotes, &["key-quoted"]),
        (Self::KeyIsOptional, &["key-missing"]),
        (Self::EqualBodiesAreEqualOrders, &["key-new"]),
        (Self::PayloadIgnored, &["mismatch-refused"]),
        (Self::MismatchIsConflict, &["mismatch-status"]),
        (
            Self::PlainRefusals,
            &["conflict-problem", "mismatch-problem", "mismatch-language"],
        ),
        (Self::NoRetryAfter, &["conflict-retry-after"]),
        (Self::FailuresStored, &["failure-free"]),
        (Self::CookiesReplayed, &["replay-cookie"]),
        (Self::DateReplayed, &["replay-date"]),
        (Self::BodyForgotten, &["replay-body"]),
        (Self::StatusForgotten, &["replay-status"]),
        (Self::HeadersForgotten, &["replay-headers"]),
        (Self::StuckAfterHangUp, &["hang-up-answered"]),
        (Self::FreedAtHangUp, &["hang-up-runs-once"]),
        (
            Self::StuckAfterDuplicate,
            &["storm-settles", "hang-up-answered"],
        ),
        (
            Self::DuplicateIsFailure,
            &["storm-answers", "hang-up-answered"],
        ),
    ];
}

/// Serves the shop with this fault.
pub(crate) fn by_hand(fault: Option<Fault>) -> SocketAddr {
    let service = Service {
        shop: Shop::default(),
        keys: Arc::default(),
        orders: Arc::default(),
        fault,
    };
    let shop = service.shop.clone();
    let order = post(order).with_state(service);
    let routes = Router::new()
        .route("/orders", order.clone())
        .route("/carts", order);
    serve(routes, &shop)
}

#[derive(Clone)]
struct Service {
    shop: Shop,
    keys: Arc<Mutex<HashMap<String, Record>>>,
    /// The key of each order, by its user, its path and its body.
    orders: Arc<Mutex<HashMap<String, String>>>,
    fault: Option<Fault>,
}

#[derive(Clone)]
struct Record {
    payload: Bytes,
    /// Whether an equal request came while the first ran.
    has_duplicate: bool,
    /// `None` while the request runs.
    response: Option<(Parts, Bytes)>,
}

async fn order(
    State(service): State<Service>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    payload: Bytes,
) -> Response<Body> {
    let Some(user) = headers.get(AUTHORIZATION) else {
        return service.refusal(401);
    };
    if service.has(Fault::NoKeys) && headers.contains_key("idempotency-key") {
        match service.key(&headers) {
            Ok(_) => return service.shop.order(&payload).await,
            Err(status) => return service.refusal(status),
        }
    }
    let mut key = match service.key(&headers) {
        Ok(Some(key)) => key,
        Ok(None) if service.has(Fault::KeyIsOptional) => return service.shop.order(&payload).await,
        Ok(None) => return service.refusal(400),
        Err(status) => return service.refusal(status),
    };
    if !service.has(Fault::KeyWithoutUser) {
        key = format!("{} {key}", user.to_str().unwrap());
    }
    if !service.has(Fault::KeyWithoutPath) {
        key = format!("{} {key}", uri.path());
    }
    if service.has(Fault::EqualBodiesAreEqualOrders) {
        let order = format!("{} {user:?} {payload:?}", uri.path());
        let mut orders = service.orders.lock().unwrap();
        if *orders.entry(order).or_insert_with(|| key.clone()) != key {
            return service.refusal(409);
        }
    }
    service.answer(key, payload).await
}

impl Service {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The key of a request, or the status of a refusal.
    fn key(&self, headers: &HeaderMap) -> Result<Option<String>, u16> {
        let mut lines = headers.get_all("idempotency-key").iter();
        let Some(line) = lines.next() else {
            return Ok(None);
        };
        let text = line.to_str().map_err(|_| 400_u16)?;
        if self.has(Fault::AnyTextIsAKey) {
            return if text.len() > 255 {
                Err(400)
            } else {
                Ok(Some(text.to_owned()))
            };
        }
        if lines.next().is_some() {
            return Err(400);
        }
        let is_bare = self.has(Fault::KeyWithoutQuotes);
        let key = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let key = if is_bare {
            Some(text).filter(|text| !text.contains('"'))
        } else {
            key
        };
        let key = key.filter(|key| !key.is_empty()).ok_or(400_u16)?;
        match key.get(..255) {
            Some(cut) if self.has(Fault::KeyCut) => Ok(Some(cut.to_owned())),
            Some(_) if key.len() > 255 => Err(400),
            _ => Ok(Some(key.to_owned())),
        }
    }

    async fn answer(self, key: String, payload: Bytes) -> Response<Body> {
        if let Some(answer) = self.known(&key, &payload) {
            return answer;
        }
        if self.has(Fault::CheckThenAct) || self.has(Fault::StuckAfterHangUp) {
            // A hang-up drops this future in the middle.
            return self.run(key, payload).await;
        }
        let freed = self
            .has(Fault::FreedAtHangUp)
            .then(|| Freed(self.clone(), key.clone()));
        let running = tokio::spawn(self.run(key, payload));
        let answer = running.await.unwrap();
        std::mem::forget(freed);
        answer
    }

    /// The answer to a request whose key is known. Claims a new key.
    fn known(&self, key: &str, payload: &Bytes) -> Option<Response<Body>> {
        let mut keys = self.keys.lock().unwrap();
        let Some(record) = keys.get(key) else {
            if !self.has(Fault::CheckThenAct) {
                let record = Record {
                    payload: payload.clone(),
                    has_duplicate: false,
                    response: None,
                };
                keys.insert(key.to_owned(), record);
            }
            return None;
        };
        if record.payload != payload && !self.has(Fault::PayloadIgnored) {
            let is_conflict = self.has(Fault::MismatchIsConflict);
            return Some(self.refusal(if is_conflict { 409 } else { 422 }));
        }
        match record.response.clone() {
            None if self.has(Fault::DuplicateIsFailure) => Some(self.refusal(500)),
            None => {
                let duplicate = Record {
                    has_duplicate: true,
                    ..record.clone()
                };
                keys.insert(key.to_owned(), duplicate);
                Some(self.refusal(409))
            }
            Some((mut head, mut body)) => {
                if self.has(Fault::StatusForgotten) {
                    head.status = StatusCode::OK;
                }
                if self.has(Fault::BodyForgotten) {
                    body = Bytes::new();
                }
                Some(Response::from_parts(head, body.into()))
            }
        }
    }

    async fn run(self, key: String, payload: Bytes) -> Response<Body> {
        let (mut head, body) = self.shop.order(&payload).await.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        if self.has(Fault::DateReplayed) {
            let now = httpdate::fmt_http_date(std::time::SystemTime::now());
            head.headers.insert(DATE, now.parse().unwrap());
        }
        let mut stored = head.clone();
        if !self.has(Fault::CookiesReplayed) {
            stored.headers.remove(SET_COOKIE);
        }
        if self.has(Fault::HeadersForgotten) {
            stored.headers.remove(LOCATION);
        }
        let mut keys = self.keys.lock().unwrap();
        let has_duplicate = keys.get(&key).is_some_and(|record| record.has_duplicate);
        if head.status.is_server_error() && !self.has(Fault::FailuresStored) {
            keys.remove(&key);
        } else if !(has_duplicate && self.has(Fault::StuckAfterDuplicate)) {
            let record = Record {
                payload,
                has_duplicate,
                response: Some((stored, body.clone())),
            };
            keys.insert(key, record);
        }
        drop(keys);
        Response::from_parts(head, body.into())
    }

    fn refusal(&self, status: u16) -> Response<Body> {
        let mut response = Response::builder().status(status);
        if !self.has(Fault::PlainRefusals) {
            response = response.header("content-type", "application/problem+json");
            response = response.header("content-language", "en");
        }
        if status == 409 && !self.has(Fault::NoRetryAfter) {
            response = response.header("retry-after", "1");
        }
        response.body("{}".into()).unwrap()
    }
}

/// Frees a key when it is dropped.
struct Freed(Service, String);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.keys.lock().unwrap().remove(&self.1);
    }
}
