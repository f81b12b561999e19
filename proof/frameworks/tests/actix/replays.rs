//! What a repeated request gets.

use std::sync::Arc;

use http::Method;
use idempotence::http::Payload;
use idempotent_runtime::Idempotency;
use tokio::sync::Barrier;

use crate::shop::{BOTH, Shop};
use support::forging::Forging;
use support::http_client::{MAX_WAIT, Reply, idempotency, keyed, layer, post, scoped};

/// The lines of a response that its replay must have, too. actix keeps no order of different names.
fn comparable(reply: &Reply) -> Vec<(String, Vec<u8>)> {
    let once = ["date", "set-cookie", "idempotency-replayed"];
    let lines = reply.headers.iter();
    let lines = lines.filter(|(name, _)| !once.contains(&name.as_str()));
    let mut lines: Vec<_> = lines
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

#[tokio::test]
async fn a_replay_equals_the_first_response_but_for_its_marker() {
    let mut seen = Vec::new();
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let first = shop.service.send(keyed("/orders", "a"), "{}").await;
        let replay = shop.service.send(keyed("/orders", "\"a\""), "{}").await;
        assert_eq!(
            (first.status.as_u16(), first.text()),
            (201, "order 1 {}"),
            "{server:?}"
        );
        assert_eq!((replay.status, &replay.body), (first.status, &first.body));
        assert_eq!(comparable(&replay), comparable(&first), "{server:?}");
        assert_eq!((first.is_replay(), replay.is_replay()), (false, true));
        assert_eq!(first.headers["x-raw"].as_bytes(), b"caf\xe9");
        let lines = |reply: &Reply, name| reply.headers.get_all(name).iter().count();
        assert_eq!(
            (lines(&replay, "link"), lines(&first, "set-cookie")),
            (2, 2)
        );
        assert!(!replay.headers.contains_key("set-cookie"));
        assert_eq!(shop.runs(), 1, "{server:?}");
        seen.push(comparable(&replay));
    }
    let [axum, actix] = &seen[..] else {
        unreachable!("there are two servers")
    };
    assert_eq!(axum, actix);
}

#[tokio::test]
async fn only_the_layer_marks_a_replay() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        for (path, is_stored) in [("/status/201", true), ("/status/503", false)] {
            let first = shop.service.send(keyed(path, "a"), "").await;
            assert!(!first.is_replay(), "{server:?} {path}");
            let second = shop.service.send(keyed(path, "a"), "").await;
            let marks = second.headers.get_all("idempotency-replayed").iter();
            assert_eq!(marks.count(), usize::from(is_stored), "{server:?} {path}");
        }
        let unguarded = shop.service.send(post("/status/201"), "").await;
        assert!(unguarded.is_replay(), "{server:?}");
    }
}

#[tokio::test]
async fn a_replay_reads_what_the_other_server_has_stored() {
    let handle = idempotency();
    let mut replays = Vec::new();
    for server in BOTH {
        let shop = Shop::start(server, &scoped(&handle).build()).await;
        let reply = shop.service.send(keyed("/orders", "a"), "{}").await;
        assert_eq!(reply.text(), "order 1 {}");
        replays.push((reply.is_replay(), shop.runs()));
    }
    assert_eq!(replays, [(false, 1), (true, 0)]);
}

const CLIENTS: usize = 50;

/// Sends equal requests at once. Returns how many handlers ran, and how many responses are replays.
async fn storm(shop: Shop) -> (usize, usize) {
    let (shop, barrier) = (Arc::new(shop), Arc::new(Barrier::new(CLIENTS)));
    let clients = (0..CLIENTS).map(|_| {
        let (shop, barrier) = (Arc::clone(&shop), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            shop.service.send(keyed("/orders", "a"), "{}").await
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut replays = 0;
    for client in clients {
        let reply = client.await.unwrap();
        assert_eq!(reply.status, 201);
        replays += usize::from(reply.is_replay());
    }
    (shop.runs(), replays)
}

#[tokio::test]
async fn a_storm_of_equal_requests_runs_one_handler() {
    for server in BOTH {
        let wait = scoped(&idempotency()).wait(MAX_WAIT).build();
        let shop = Shop::start(server, &wait).await;
        assert_eq!(storm(shop).await, (1, CLIENTS - 1), "{server:?}");
    }
}

#[tokio::test]
async fn without_a_guard_a_storm_of_equal_requests_runs_each_handler() {
    for server in BOTH {
        let unguarded = scoped(&idempotency()).methods([]).build();
        let shop = Shop::start(server, &unguarded).await;
        assert_eq!(storm(shop).await, (CLIENTS, 0), "{server:?}");
    }
}

#[tokio::test]
async fn only_unsafe_methods_with_a_key_are_guarded() {
    let cases = [
        (Method::POST, Some("a"), 1),
        (Method::PATCH, Some("a"), 1),
        (Method::POST, None, 2),
        (Method::PUT, Some("a"), 2),
        (Method::DELETE, Some("a"), 2),
        (Method::GET, Some("a"), 2),
        (Method::OPTIONS, Some("a"), 2),
        // Not even read.
        (Method::GET, Some("\"malformed"), 2),
    ];
    for server in BOTH {
        for (method, key, runs) in &cases {
            let shop = Shop::start(server, &layer()).await;
            for _ in 0..2 {
                let request = key.map_or_else(|| post("/orders"), |key| keyed("/orders", key));
                let reply = shop.service.send(request.method(method), "{}").await;
                assert_eq!(reply.status, 201, "{server:?} {method}");
            }
            assert_eq!(shop.runs(), *runs, "{server:?} {method} {key:?}");
        }
    }
}

#[tokio::test]
async fn two_callers_with_one_key_make_two_orders() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let other = || {
            let mut request = keyed("/orders", "a");
            let headers = request.headers_mut().unwrap();
            headers.insert("authorization", "bob".parse().unwrap());
            request
        };
        for (request, is_replay) in [
            (keyed("/orders", "a"), false),
            (other(), false),
            (keyed("/orders", "a"), true),
            (other(), true),
        ] {
            let reply = shop.service.send(request, "{}").await;
            assert_eq!(reply.is_replay(), is_replay, "{server:?}");
        }
        assert_eq!(shop.runs(), 2);
    }
}

#[tokio::test]
async fn a_payload_may_be_compared_as_json() {
    for server in BOTH {
        let layer = scoped(&idempotency()).payload(Payload::json()).build();
        let shop = Shop::start(server, &layer).await;
        let json = || keyed("/orders", "a").header("content-type", "application/json");
        shop.service.send(json(), r#"{"cents": 5, "to": 7}"#).await;
        let replay = shop.service.send(json(), r#"{"to":7.0,"cents":5}"#).await;
        assert!(replay.is_replay(), "{server:?}");
        let null = r#"{"to":7,"cents":5,"note":null}"#;
        let other = shop.service.send(json(), null).await;
        assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    }
}

#[tokio::test]
async fn a_forged_response_does_not_reach_the_wire() {
    for server in BOTH {
        let handle = Idempotency::new(Forging::new());
        let shop = Shop::start(server, &scoped(&handle).build()).await;
        let first = shop.service.send(keyed("/orders", "a"), "{}").await;
        assert_eq!(first.status, 201, "{server:?}");
        let replay = shop.service.send(keyed("/orders", "a"), "{}").await;
        let refusal = replay.refusal();
        assert_eq!(
            refusal,
            (409, "result_unavailable".to_owned()),
            "{server:?}"
        );
        assert_eq!(shop.runs(), 1, "{server:?}");
    }
}
