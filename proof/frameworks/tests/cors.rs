//! A browser asks before it sends a request with a key to another origin, and shows a script only the headers that are exposed.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use axum::Router;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderName, Method};
use axum::routing::post;
use idempotence::http::{IdempotencyLayer, Profile, cors};
use idempotence::{Idempotency, MemoryStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower_http::cors::CorsLayer;

const ORIGIN: &str = "https://shop.example";

/// A shop that allows scripts of another origin, with these headers beside the headers of the layer.
async fn shop(profile: Profile, more: &[HeaderName]) -> String {
    let idempotency = Idempotency::new(MemoryStore::new());
    let layer = IdempotencyLayer::builder(&idempotency)
        .profile(profile)
        .scope_by_header(AUTHORIZATION)
        .build();
    let mut allowed = cors::allow_headers(&layer);
    allowed.extend_from_slice(more);
    let cors = CorsLayer::new()
        .allow_origin([ORIGIN.parse().unwrap()])
        .allow_methods([Method::POST])
        .allow_headers(allowed)
        .expose_headers(cors::expose_headers(&layer));
    let app = Router::new()
        .route("/orders", post(async || "placed"))
        .route_layer(layer)
        .layer(cors);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The status, and the headers with their names in small letters.
async fn send(address: &str, head: &str) -> (u16, BTreeMap<String, String>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{head}\r\nHost: shop\r\nOrigin: {ORIGIN}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let mut lines = response.lines().take_while(|line| !line.is_empty());
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status.parse().unwrap(), headers.collect())
}

/// The names in a header that is a list.
fn list<'a>(headers: &'a BTreeMap<String, String>, name: &str) -> Vec<&'a str> {
    let names = headers.get(name).map_or("", String::as_str);
    names.split(',').map(str::trim).collect()
}

#[tokio::test]
async fn a_preflight_allows_the_headers_that_a_request_with_a_key_has() {
    for (profile, needed) in [
        (
            Profile::Ietf,
            vec!["idempotency-key", "authorization", "content-type"],
        ),
        (
            Profile::Repeatability,
            vec![
                "repeatability-request-id",
                "repeatability-first-sent",
                "authorization",
                "content-type",
            ],
        ),
    ] {
        let address = shop(profile, &[CONTENT_TYPE]).await;
        let preflight = format!(
            "OPTIONS /orders HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: {}",
            needed.join(",")
        );
        let (status, headers) = send(&address, &preflight).await;
        assert_eq!(status, 200);
        assert_eq!(headers["access-control-allow-origin"], ORIGIN);
        let allowed = list(&headers, "access-control-allow-headers");
        for name in needed {
            assert!(allowed.contains(&name), "{name} in {allowed:?}");
        }
    }
}

#[tokio::test]
async fn a_script_reads_that_a_response_is_a_replay() {
    for (profile, marker) in [
        (Profile::Ietf, "idempotency-replayed"),
        (Profile::Stripe, "idempotent-replayed"),
    ] {
        let address = shop(profile, &[]).await;
        let order = "POST /orders HTTP/1.1\r\nIdempotency-Key: a\r\nAuthorization: Bearer ada";
        let (_, first) = send(&address, order).await;
        let (status, replay) = send(&address, order).await;
        assert_eq!((status, replay[marker].as_str()), (200, "true"));
        assert!(!first.contains_key(marker));
        for headers in [first, replay] {
            let exposed = list(&headers, "access-control-expose-headers");
            for name in [marker, "retry-after", "location"] {
                assert!(exposed.contains(&name), "{name} in {exposed:?}");
            }
        }
    }
}
