//! The proxy does to messages what it is told, and to no others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};

use super::ask;

struct Client(TcpStream);

impl Client {
    fn of(proxy: &RedisProxy) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self(stream)
    }

    fn send(&mut self, requests: &str) {
        self.0.write_all(requests.as_bytes()).unwrap();
    }

    fn reads(&mut self, expected: &str) {
        let mut replies = vec![0; expected.len()];
        self.0.read_exact(&mut replies).unwrap();
        assert_eq!(String::from_utf8(replies).unwrap(), expected);
    }

    fn is_cut_off_after(&mut self, expected: &str) {
        let mut replies = String::new();
        match self.0.read_to_string(&mut replies) {
            Ok(_) => assert_eq!(replies, expected),
            // What was read before a reset is lost.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    fn reads_nothing(&mut self) {
        let patience = Some(Duration::from_millis(100));
        self.0.set_read_timeout(patience).unwrap();
        let error = self.0.read(&mut [0]).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut
        ));
    }
}

fn proxied() -> (RedisServer, RedisProxy, Client) {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::before(("127.0.0.1", server.port())).unwrap();
    let client = Client::of(&proxy);
    (server, proxy, client)
}

/// A pipeline that shows in the server which of it came.
const PIPELINE: &str = "INCR a\r\n*2\r\n$4\r\nINCR\r\n$1\r\nb\r\nINCR c\r\n";

fn counted(server: &RedisServer) -> String {
    ask(server.port(), "MGET a b c")
        .unwrap()
        .replace("\r\n", "")
}

fn comes_to(server: &RedisServer, expected: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while counted(server) != expected {
        assert!(Instant::now() < deadline, "{}", counted(server));
    }
}

#[test]
fn an_unharmed_pipeline_passes_and_is_counted() {
    let (server, proxy, mut client) = proxied();
    client.send(PIPELINE);
    client.reads(":1\r\n:1\r\n:1\r\n");
    client.send("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nx\r\n");
    client.reads("$1\r\n1\r\n*2\r\n$1\r\n1\r\n$-1\r\n");
    let seen = proxy.seen();
    assert_eq!((seen.requests, seen.replies, seen.struck), (5, 5, false));
    assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));
    drop(proxy);
    client.is_cut_off_after("");
    assert_eq!(counted(&server), "*3$11$11$11");
}

#[test]
fn a_lost_request_is_not_carried_out() {
    for fault in [ProxyFault::Close, ProxyFault::Cut] {
        let (server, proxy, mut client) = proxied();
        proxy.plan(Direction::Request, 1, fault);
        client.send(PIPELINE);
        let mut left = Vec::new();
        // Whether the first reply comes before the end is a race.
        let _ = client.0.read_to_end(&mut left);
        assert!(left.is_empty() || left == b":1\r\n");
        assert!(counted(&server).ends_with("$-1$-1"), "{fault:?}");
        assert!(proxy.seen().struck);
        let mut client = Client::of(&proxy);
        client.send("PING\r\n");
        client.reads("+PONG\r\n");
    }
}

#[test]
fn after_a_silent_request_nothing_is_carried_out() {
    let (server, proxy, mut client) = proxied();
    proxy.plan(Direction::Request, 1, ProxyFault::Silence);
    client.send(PIPELINE);
    client.reads(":1\r\n");
    client.reads_nothing();
    assert_eq!(counted(&server), "*3$11$-1$-1");
    proxy.hang_up();
    client.is_cut_off_after("");
}

#[test]
fn a_lost_reply_is_that_of_a_command_that_was_carried_out() {
    for (fault, part) in [(ProxyFault::Close, ""), (ProxyFault::Cut, ":1")] {
        let (server, proxy, mut client) = proxied();
        proxy.plan(Direction::Reply, 1, fault);
        client.send(PIPELINE);
        client.is_cut_off_after(&format!(":1\r\n{part}"));
        assert!(counted(&server).starts_with("*3$11$11"), "{fault:?}");
    }
    let (server, proxy, mut client) = proxied();
    proxy.plan(Direction::Reply, 1, ProxyFault::Silence);
    client.send(PIPELINE);
    client.reads(":1\r\n");
    client.reads_nothing();
    comes_to(&server, "*3$11$11$11");
}

#[test]
fn a_late_message_comes_before_what_follows_it() {
    let delay = Duration::from_millis(200);
    for direction in [Direction::Request, Direction::Reply] {
        let (_server, proxy, mut client) = proxied();
        proxy.plan(direction, 1, ProxyFault::Delay(delay));
        let begun = Instant::now();
        client.send(PIPELINE);
        client.reads(":1\r\n:1\r\n:1\r\n");
        assert!(begun.elapsed() >= delay);
    }
}

#[test]
fn a_late_request_comes_also_if_its_client_has_left() {
    let (server, proxy, mut client) = proxied();
    proxy.plan(
        Direction::Request,
        0,
        ProxyFault::Delay(Duration::from_millis(200)),
    );
    client.send(PIPELINE);
    drop(client);
    comes_to(&server, "*3$11$11$11");
    assert_eq!(proxy.seen().requests, 3);
}

#[test]
fn a_request_that_comes_twice_is_answered_once() {
    let (server, proxy, mut client) = proxied();
    proxy.plan(Direction::Request, 1, ProxyFault::Repeat);
    client.send(PIPELINE);
    client.reads(":1\r\n:1\r\n:1\r\n");
    assert_eq!(counted(&server), "*3$11$12$11");
    assert_eq!(proxy.seen().replies, 3);
}

#[test]
fn a_server_that_is_away_looks_away() {
    let (server, proxy, _) = proxied();
    server.kill().unwrap();
    Client::of(&proxy).is_cut_off_after("");
    server.restart().unwrap();
    let mut client = Client::of(&proxy);
    client.send("PING\r\n");
    client.reads("+PONG\r\n");
}
