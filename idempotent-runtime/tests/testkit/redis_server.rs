//! The private Redis server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio, abort};
use std::time::{Duration, Instant};
use std::{env, thread};

use idempotent_runtime::testkit::RedisServer;

/// What the server at this port answers, if there is one.
fn ask(port: u16, question: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let patience = Duration::from_millis(500);
    stream.set_read_timeout(Some(patience)).ok()?;
    stream
        .write_all(format!("{question}\r\n").as_bytes())
        .ok()?;
    let mut answer = [0; 100];
    let length = stream.read(&mut answer).ok()?;
    Some(
        String::from_utf8_lossy(&answer[..length])
            .trim_end()
            .to_owned(),
    )
}

fn is_gone_soon(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while ask(port, "PING").is_some() {
        assert!(Instant::now() < deadline, "the server is still there");
        thread::sleep(Duration::from_millis(10));
    }
}

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
    assert_eq!(ask(server.port(), "PING"), None);
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

/// What the next two run in another process. Without the environment that they set, nothing.
#[test]
fn in_another_process() {
    if env::var_os(ROLE).is_none() {
        return;
    }
    match RedisServer::shared() {
        Ok(server) => {
            // Past the harness, which keeps the output to itself.
            writeln!(std::io::stderr(), "port {}", server.port()).unwrap();
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
    let name = "redis_server::in_another_process";
    command.args(["--exact", name, "--nocapture"]);
    command.env(ROLE, "server").stdout(Stdio::null());
    command
}

#[test]
fn is_gone_when_the_process_dies_without_destructors() {
    let output = another_process().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let port = text.lines().find_map(|line| line.strip_prefix("port "));
    is_gone_soon(port.unwrap_or_else(|| panic!("{text}")).parse().unwrap());
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
