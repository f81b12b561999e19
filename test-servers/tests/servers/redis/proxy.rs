//! The proxy applies the planned fault to the planned message and to no other.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};

use super::ask;

struct Client(TcpStream);

impl Client {
    fn connect(proxy: &RedisProxy) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
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
            // A reset discards the bytes that were read before it.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    fn reads_nothing(&mut self) {
        let wait = Some(Duration::from_millis(100));
        self.0.set_read_timeout(wait).unwrap();
        let error = self.0.read(&mut [0]).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut
        ));
    }
}

fn proxied() -> (RedisServer, RedisProxy, Client) {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let client = Client::connect(&proxy);
    (server, proxy, client)
}

/// A pipeline. The server's counters show which of its commands arrived.
const PIPELINE: &str = "INCR a\r\n*2\r\n$4\r\nINCR\r\n$1\r\nb\r\nINCR c\r\n";

fn counted(server: &RedisServer) -> String {
    ask(server.port(), "MGET a b c")
        .unwrap()
        .replace("\r\n", "")
}

fn wait_until_counted(server: &RedisServer, expected: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while counted(server) != expected {
        assert!(Instant::now() < deadline, "{}", counted(server));
    }
}

#[test]
fn an_undamaged_pipeline_passes_and_is_counted() {
    let (server, proxy, mut client) = proxied();
    client.send(PIPELINE);
    client.reads(":1\r\n:1\r\n:1\r\n");
    client.send("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nx\r\n");
    client.reads("$1\r\n1\r\n*2\r\n$1\r\n1\r\n$-1\r\n");
    let traffic = proxy.traffic();
    assert_eq!((traffic.requests, traffic.replies), (5, 5));
    assert!(!traffic.fault_applied);
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
        let mut replies = Vec::new();
        // The first reply may arrive before or after the connection is closed.
        let _ = client.0.read_to_end(&mut replies);
        assert!(replies.is_empty() || replies == b":1\r\n");
        assert!(counted(&server).ends_with("$-1$-1"), "{fault:?}");
        assert!(proxy.traffic().fault_applied);
        let mut client = Client::connect(&proxy);
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
    proxy.close_connections();
    client.is_cut_off_after("");
}

#[test]
fn a_command_with_a_lost_reply_is_carried_out() {
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
    wait_until_counted(&server, "*3$11$11$11");
}

#[test]
fn a_delayed_message_arrives_before_later_messages() {
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
fn a_delayed_request_arrives_after_its_client_disconnected() {
    let (server, proxy, mut client) = proxied();
    proxy.plan(
        Direction::Request,
        0,
        ProxyFault::Delay(Duration::from_millis(200)),
    );
    client.send(PIPELINE);
    drop(client);
    wait_until_counted(&server, "*3$11$11$11");
    assert_eq!(proxy.traffic().requests, 3);
}

#[test]
fn a_repeated_request_is_answered_once() {
    let (server, proxy, mut client) = proxied();
    proxy.plan(Direction::Request, 1, ProxyFault::Repeat);
    client.send(PIPELINE);
    client.reads(":1\r\n:1\r\n:1\r\n");
    assert_eq!(counted(&server), "*3$11$12$11");
    assert_eq!(proxy.traffic().replies, 3);
}

#[test]
fn the_proxy_closes_connections_while_the_server_does_not_run() {
    let (server, proxy, _) = proxied();
    server.kill().unwrap();
    Client::connect(&proxy).is_cut_off_after("");
    server.restart().unwrap();
    let mut client = Client::connect(&proxy);
    client.send("PING\r\n");
    client.reads("+PONG\r\n");
}
