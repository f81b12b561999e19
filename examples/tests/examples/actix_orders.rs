//! Clients repeat requests to the shop in actix, hang up, and the shop stops.

#[allow(dead_code, reason = "other tests use the rest")]
use idempotence_test_servers::RedisServer;

use crate::service::{Reply, Service};

const BIN: &str = env!("CARGO_BIN_EXE_actix_orders");
const BOOK: &str = r#"{"item":"a book","cents":1200}"#;
const CARD: &str = r#"{"number":"4711"}"#;

fn start(store: &str) -> Service {
    Service::start(BIN, store)
}

#[test]
fn a_repeated_order_gets_the_first_response() {
    let mut shop = start("memory:");
    let first = shop.post("/orders", "ada", "k1", BOOK);
    assert_eq!((first.status, first.body.as_str()), (201, BOOK));
    assert!(!first.is_replay() && first.header("location") == Some("/orders/1"));
    // The same order, written in another way.
    let again = shop.post(
        "/orders",
        "ada",
        "k1",
        r#"{"cents":1200.0, "item":"a book"}"#,
    );
    assert_eq!((again.status, again.body.as_str()), (201, BOOK));
    assert!(again.is_replay() && again.header("location") == Some("/orders/1"));
    let other = shop.post("/orders", "ada", "k1", r#"{"item":"a pen","cents":1}"#);
    assert_eq!(other.status, 422);
    assert!(
        other.body.contains(r#""code":"payload_mismatch""#),
        "{}",
        other.body
    );
    let bob = shop.post("/orders", "bob", "k1", BOOK);
    assert!(!bob.is_replay() && bob.header("location") == Some("/orders/2"));
    assert_eq!(
        shop.stop(),
        [
            "order 1: a book for 1200 cents",
            "order 2: a book for 1200 cents",
            "stopped"
        ]
    );
}

#[test]
fn a_stranger_an_unknown_path_and_a_request_without_a_key_are_refused() {
    let shop = start("memory:");
    assert_eq!(shop.post("/orders", "eve", "k1", BOOK).status, 401);
    assert_eq!(shop.post("/nowhere", "ada", "k1", BOOK).status, 404);
    for (path, body) in [("/orders", BOOK), ("/orders/1/pay", CARD)] {
        let without = shop.post(path, "ada", "", body);
        assert_eq!(without.status, 400);
        assert!(
            without.body.contains(r#""code":"idempotency_key_missing""#),
            "{}",
            without.body
        );
    }
}

#[test]
fn a_repeated_payment_gets_the_first_receipt() {
    let mut shop = start("memory:");
    for is_replay in [false, true] {
        let paid = shop.post("/orders/1/pay", "ada", "k1", CARD);
        assert_eq!(
            (paid.status, paid.body.as_str()),
            (200, r#"{"order":1,"number":1}"#)
        );
        assert_eq!(paid.is_replay(), is_replay);
    }
    let other = shop.post("/orders/2/pay", "ada", "k1", CARD);
    assert_eq!(other.status, 422);
    assert!(
        other.body.contains(r#""code":"payload_mismatch""#),
        "{}",
        other.body
    );
    assert_eq!(shop.stop(), ["charging order 1", "stopped"]);
}

#[test]
fn two_payments_at_once_charge_once() {
    let mut shop = start("memory:");
    let mut both = [(); 2].map(|()| shop.begin("POST", "/orders/1/pay", "ada", "k1", CARD));
    let replies = both.each_mut().map(Reply::read);
    // If the shop stands still, the second request may wait for too long.
    let replies = replies.map(|reply| match reply.status {
        409 => shop.post_until_ended("/orders/1/pay", "ada", "k1", CARD),
        _ => reply,
    });
    let [one, other] = replies.each_ref().map(Reply::is_replay);
    assert_ne!(one, other);
    assert_eq!(replies[0].body, replies[1].body);
    assert_eq!(shop.stop(), ["charging order 1", "stopped"]);
}

#[test]
fn another_process_replays_what_the_first_has_stored() {
    let server = RedisServer::start().unwrap();
    let mut first = start(&server.url());
    first.post("/orders", "ada", "k1", BOOK);
    first.post("/orders/1/pay", "ada", "k2", CARD);
    first.stop();
    let mut second = start(&server.url());
    for (path, key, body) in [("/orders", "k1", BOOK), ("/orders/1/pay", "k2", CARD)] {
        assert!(second.post(path, "ada", key, body).is_replay(), "{path}");
    }
    assert_eq!(second.stop(), ["stopped"]);
}

/// The page shows code of the example, so that it compiles and runs.
#[test]
fn the_page_shows_code_of_this_example() {
    let example = include_str!("../../actix_orders.rs");
    let lines: Vec<_> = example.lines().map(str::trim).collect();
    let page = include_str!("../../../docs/guide/http-frameworks.md");
    // The code of clients is not in this example.
    let page = page.split("\n## Clients\n").next().unwrap();
    let blocks = page.split("```rust,ignore\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 2);
    for line in blocks.iter().flat_map(|block| block.lines()).map(str::trim) {
        let is_shown = line.is_empty() || line == "// …" || lines.contains(&line);
        assert!(is_shown, "{line}");
    }
}
