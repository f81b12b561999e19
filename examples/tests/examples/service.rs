//! A service as a process behind a real socket: starts it, sends it requests, and stops it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that prints the address on which it listens. Dropping it kills the process.
pub(crate) struct Service {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The names are in small letters.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.headers.iter().find(|(known, _)| known == name);
        line.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// Reads the reply to a request that was begun.
    pub(crate) fn read(connection: &mut TcpStream) -> Self {
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect(&text);
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        });
        Self {
            status: status.parse().unwrap(),
            headers: headers.collect(),
            body: body.to_owned(),
        }
    }
}

impl Service {
    /// Starts a program on a free port. `store` is its second argument.
    pub(crate) fn start(program: &str, store: impl AsRef<OsStr>) -> Self {
        Self::start_with(program, &[store.as_ref()])
    }

    /// Starts a program on a free port, with these arguments after the address.
    pub(crate) fn start_with(program: &str, args: &[&OsStr]) -> Self {
        let mut process = Command::new(program)
            .arg("127.0.0.1:0")
            .args(args)
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

    pub(crate) fn post(&self, path: &str, user: &str, key: &str, body: &str) -> Reply {
        self.send("POST", path, user, key, body)
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        user: &str,
        key: &str,
        body: &str,
    ) -> Reply {
        let begun = Instant::now();
        loop {
            let reply = Reply::read(&mut self.begin(method, path, user, key, body));
            // On a slow machine the store may not answer within a second. A client then sends the request again.
            let is_slow = reply.status == 503 && reply.body.contains("store_unavailable");
            if !is_slow || begun.elapsed() > Duration::from_mins(1) {
                return reply;
            }
        }
    }

    /// Sends a request until no equal request is running.
    pub(crate) fn post_until_ended(&self, path: &str, user: &str, key: &str, body: &str) -> Reply {
        let begun = Instant::now();
        loop {
            let reply = self.post(path, user, key, body);
            if reply.status != 409 || begun.elapsed() > Duration::from_mins(1) {
                return reply;
            }
            thread::yield_now();
        }
    }

    /// Sends a request, and does not wait for its reply. Without a text as the key it has no key.
    pub(crate) fn begin(
        &self,
        method: &str,
        path: &str,
        user: &str,
        key: &str,
        body: &str,
    ) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let key = match key {
            "" => String::new(),
            key => format!("idempotency-key: \"{key}\"\r\n"),
        };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\nauthorization: Bearer {user}\r\n{key}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    /// Reads what the process prints, up to a line that begins like this.
    pub(crate) fn until(&mut self, begin: &str) {
        let line = self
            .lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.starts_with(begin));
        assert!(
            line.is_some(),
            "the process ended without the line {begin:?}"
        );
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks the process to stop, as an orchestrator does. Returns what it printed after the lines that were read.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        let process = self.process.id().to_string();
        let asked = Command::new("kill").args(["-INT", &process]).status();
        assert!(asked.unwrap().success());
        let printed = self.lines.by_ref().map(Result::unwrap).collect();
        assert!(self.process.wait().unwrap().success());
        printed
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}
