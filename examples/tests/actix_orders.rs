//! Clients repeat requests to the shop in actix, hang up, and the shop stops.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use idempotence_test_servers::RedisServer;

const BIN: &str = env!("CARGO_BIN_EXE_actix_orders");
const BOOK: &str = r#"{"item":"a book","cents":1200}"#;
const CARD: &str = r#"{"number":"4711"}"#;

#[test]
fn a_repeated_order_gets_the_first_response() {
    let shop = Shop::start("memory:");
    let first = shop.post("/orders", "ada", "k1", BOOK);
    assert_eq!((first.status, first.body.as_str()), (201, BOOK));
    assert!(!first.is_replay() && first.head.contains("location: /orders/1"));
    // The same order, written in another way.
    let again = shop.post(
        "/orders",
        "ada",
        "k1",
        r#"{"cents":1200.0, "item":"a book"}"#,
    );
    assert_eq!((again.status, again.body.as_str()), (201, BOOK));
    assert!(again.is_replay() && again.head.contains("location: /orders/1"));
    let other = shop.post("/orders", "ada", "k1", r#"{"item":"a pen","cents":1}"#);
    assert_eq!(other.status, 422);
    assert!(
        other.body.contains(r#""code":"payload_mismatch""#),
        "{}",
        other.body
    );
    let bob = shop.post("/orders", "bob", "k1", BOOK);
    assert!(!bob.is_replay() && bob.head.contains("location: /orders/2"));
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
    let shop = Shop::start("memory:");
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
    let shop = Shop::start("memory:");
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
    let shop = Shop::start("memory:");
    let mut both = [(); 2].map(|()| shop.begin("/orders/1/pay", "ada", "k1", CARD));
    let replies = both.each_mut().map(Reply::read);
    let [one, other] = replies.each_ref().map(Reply::is_replay);
    assert_ne!(one, other);
    assert_eq!(replies[0].body, replies[1].body);
    assert_eq!(shop.stop(), ["charging order 1", "stopped"]);
}

#[test]
fn another_process_replays_what_the_first_has_stored() {
    let server = RedisServer::start().unwrap();
    let first = Shop::start(&server.url());
    first.post("/orders", "ada", "k1", BOOK);
    first.post("/orders/1/pay", "ada", "k2", CARD);
    first.stop();
    let second = Shop::start(&server.url());
    for (path, key, body) in [("/orders", "k1", BOOK), ("/orders/1/pay", "k2", CARD)] {
        assert!(second.post(path, "ada", key, body).is_replay(), "{path}");
    }
    assert_eq!(second.stop(), ["stopped"]);
}

/// The pages show code of the example, so that it compiles and runs.
#[test]
fn the_pages_show_code_of_this_example() {
    let example = include_str!("../actix_orders.rs");
    let lines: Vec<_> = example.lines().map(str::trim).collect();
    for (page, count) in [
        (include_str!("../../docs/runtimes.md"), 1),
        (include_str!("../../docs/http.md"), 2),
    ] {
        // The code of clients is not in this example.
        let page = page.split("\n# Clients\n").next().unwrap();
        let blocks = page.split("```rust,ignore\n").skip(1);
        let blocks: Vec<_> = blocks
            .map(|block| block.split("```").next().unwrap())
            .collect();
        assert_eq!(blocks.len(), count);
        for line in blocks.iter().flat_map(|block| block.lines()).map(str::trim) {
            let is_shown = line.is_empty() || line == "// …" || lines.contains(&line);
            assert!(is_shown, "{line}");
        }
    }
}

/// A process.
struct Shop {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

struct Reply {
    status: u16,
    /// In small letters.
    head: String,
    body: String,
}

impl Reply {
    fn read(connection: &mut TcpStream) -> Self {
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect(&text);
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    fn is_replay(&self) -> bool {
        self.head.contains("idempotency-replayed: true")
    }
}

impl Shop {
    fn start(url: &str) -> Self {
        let mut process = Command::new(BIN)
            .args(["127.0.0.1:0", url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next().expect("a line").unwrap();
        let address = line.strip_prefix("listening on http://").expect(&line);
        Self {
            address: address.to_owned(),
            process,
            lines,
        }
    }

    fn post(&self, path: &str, user: &str, key: &str, body: &str) -> Reply {
        Reply::read(&mut self.begin(path, user, key, body))
    }

    /// Sends a request, and does not wait for its response.
    fn begin(&self, path: &str, user: &str, key: &str, body: &str) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let key = match key {
            "" => String::new(),
            key => format!("idempotency-key: \"{key}\"\r\n"),
        };
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\nauthorization: Bearer {user}\r\n{key}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    /// Asks the process to stop, as an orchestrator does. Returns what it printed.
    fn stop(mut self) -> Vec<String> {
        let process = self.process.id().to_string();
        let asked = Command::new("kill").args(["-INT", &process]).status();
        assert!(asked.unwrap().success());
        let printed = self.lines.by_ref().map(Result::unwrap).collect();
        assert!(self.process.wait().unwrap().success());
        printed
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
