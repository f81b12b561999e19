//! Tests of the private Redis server.

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio, abort};
use std::thread::sleep;
use std::time::{Duration, Instant};

use idempotence_test_servers::{RedisCluster, RedisSentinels, RedisServer};

use super::{ask, ask_for};

#[test]
fn answers_until_it_is_dropped() {
    let server = RedisServer::start().unwrap();
    let port = server.port();
    assert_eq!(server.url(), format!("redis://127.0.0.1:{port}"));
    assert_eq!(ask(port, "PING").unwrap(), "+PONG");
    let other = RedisServer::start().unwrap();
    assert_ne!(other.port(), port);
    drop(server);
    assert_eq!(ask(port, "PING"), None);
    assert_eq!(ask(other.port(), "PING").unwrap(), "+PONG");
}

#[test]
fn is_killed_and_started_again() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = RedisServer::start_with(args).unwrap();
    assert_eq!(ask(server.port(), "SET key value").unwrap(), "+OK");
    server.kill().unwrap();
    assert_eq!(ask(server.port(), "PING"), None);
    server.restart().unwrap();
    assert_eq!(ask(server.port(), "EXISTS key").unwrap(), ":1");
    server.restart().unwrap();
    assert_eq!(ask(server.port(), "EXISTS key").unwrap(), ":1");
}

#[test]
fn is_paused_and_resumed() {
    let server = RedisServer::start().unwrap();
    server.pause().unwrap();
    let wait = Duration::from_millis(500);
    assert_eq!(ask_for(wait, server.port(), "PING"), None);
    server.resume().unwrap();
    assert_eq!(ask(server.port(), "PING").unwrap(), "+PONG");
    server.pause().unwrap();
}

#[test]
fn says_why_it_does_not_start() {
    let error = RedisServer::start_with(["--no-such-option", "1"]).unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

const ROLE: &str = "IDEMPOTENCE_TEST_ROLE";

/// Two tests below run this in another process. It does nothing unless they set [`ROLE`].
#[test]
fn in_another_process() {
    if env::var_os(ROLE).is_none() {
        return;
    }
    match RedisServer::shared() {
        Ok(server) => {
            let cluster = RedisCluster::start(1, 1).unwrap();
            let sentinels = RedisSentinels::start().unwrap();
            let servers = [server].into_iter().chain(cluster.nodes());
            let servers = servers.chain(sentinels.servers());
            for server in servers.chain(sentinels.sentinels()) {
                // The test harness captures `eprintln!`, but not this.
                writeln!(std::io::stderr(), "{}", server.unix_url()).unwrap();
            }
            abort();
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            writeln!(std::io::stderr(), "{error}").unwrap();
        }
    }
}

fn another_process() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    let name = "redis::server::in_another_process";
    command.args(["--exact", name, "--nocapture"]);
    command.env(ROLE, "server").stdout(Stdio::null());
    command
}

#[test]
fn nothing_is_left_when_the_process_dies_without_destructors() {
    let output = another_process().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let urls = text
        .lines()
        .filter_map(|line| line.strip_prefix("redis+unix://"));
    let sockets: Vec<_> = urls.map(Path::new).collect();
    assert_eq!(sockets.len(), 1 + 2 + 2 + 3, "{text}");
    let deadline = Instant::now() + Duration::from_mins(1);
    for socket in sockets {
        // The folder is removed last.
        while socket.parent().unwrap().exists() {
            assert!(Instant::now() < deadline, "{socket:?} still exists");
            sleep(Duration::from_millis(10));
        }
        assert!(UnixStream::connect(socket).is_err());
    }
}

#[test]
fn answers_on_its_socket() {
    let server = RedisServer::start().unwrap();
    let url = server.unix_url();
    let mut stream = UnixStream::connect(url.strip_prefix("redis+unix://").unwrap()).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn says_how_to_install_a_missing_program() {
    let mut process = another_process();
    let output = process
        .env("REDIS_SERVER", "no-such-server")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    for part in [
        "no-such-server",
        "apt-get install",
        "brew install",
        "REDIS_SERVER",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
