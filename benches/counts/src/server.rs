//! A server of Redis with one script for all commands. It is in this process: behind a connection without sockets, or at a port.

use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use idempotence::store::redis::redis;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server for one kind of call.
#[derive(Debug)]
pub(crate) struct Server {
    commands: AtomicU64,
    /// The record that the first call stored; `None` if the server has no record of any key.
    stored: Option<OnceLock<Vec<u8>>>,
}

enum Reply<'a> {
    Nil,
    One,
    Text(&'a [u8]),
}

impl Server {
    /// `stores` is whether all calls find the record of the first one.
    pub(crate) fn new(stores: bool) -> Arc<Self> {
        Arc::new(Self {
            commands: AtomicU64::new(0),
            stored: stores.then(OnceLock::new),
        })
    }

    /// How many commands the server got so far.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Answers the command with these parts.
    fn answer<'a>(&self, mut parts: impl Iterator<Item = &'a [u8]>) -> Reply<'_> {
        // Only one thread writes. An atomic addition would be counted as an atomic write of the call.
        let commands = self.commands.load(Ordering::Relaxed);
        self.commands.store(commands + 1, Ordering::Relaxed);
        let stored = self.stored.as_ref();
        match parts.next() {
            Some(b"INFO") => Reply::Text(INFO),
            Some(b"SET") => match stored.and_then(OnceLock::get) {
                Some(stored) => Reply::Text(stored),
                None => Reply::Nil,
            },
            Some(b"EVALSHA") => {
                // After the hash, the number of keys, the key and the old value.
                if let (Some(stored), Some(value)) = (stored, parts.nth(4)) {
                    stored.get_or_init(|| value.to_vec());
                }
                Reply::One
            }
            _ => Reply::One,
        }
    }

    /// Answers the clients at a port, in a task of the current runtime. Returns the port.
    pub(crate) async fn listen(self: Arc<Self>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket of TCP");
                tokio::spawn(Arc::clone(&self).serve(stream));
            }
        });
        port
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut received, mut replies) = (Vec::with_capacity(BUFFER), Vec::with_capacity(BUFFER));
        while let Ok(1..) = stream.read_buf(&mut received).await {
            let mut rest = &received[..];
            while let Some((command, after)) = next_command(rest) {
                match self.answer(command) {
                    Reply::Nil => replies.extend_from_slice(b"$-1\r\n"),
                    Reply::One => replies.extend_from_slice(b":1\r\n"),
                    Reply::Text(text) => {
                        let _ = write!(replies, "${}\r\n", text.len());
                        replies.extend_from_slice(text);
                        replies.extend_from_slice(b"\r\n");
                    }
                }
                rest = after;
            }
            let read = received.len() - rest.len();
            received.drain(..read);
            if stream.write_all(&replies).await.is_err() {
                return;
            }
            replies.clear();
        }
    }
}

/// No command and no reply is longer.
const BUFFER: usize = 256 * 1024;

/// A server that claims keys by `SET`, and removes them by a script.
const INFO: &[u8] =
    b"redis_version:7.2.0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";

/// The parts of the first command and the bytes after it; `None` if it is not complete.
fn next_command(bytes: &[u8]) -> Option<(impl Iterator<Item = &[u8]>, &[u8])> {
    let (count, parts) = number(bytes, b'*')?;
    let mut rest = parts;
    for _ in 0..count {
        rest = part(rest)?.1;
    }
    let mut parts = &parts[..parts.len() - rest.len()];
    let parts = std::iter::from_fn(move || {
        let (part, after) = part(parts)?;
        parts = after;
        Some(part)
    });
    Some((parts, rest))
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes, b'$')?;
    Some((rest.get(..length)?, rest.get(length + 2..)?))
}

/// Reads a line with a number after `mark`.
fn number(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let (line, rest) = bytes.split_at(end + 1);
    assert_eq!(line[0], mark, "a client sends arrays of strings");
    let digits = line[1..].iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    Some((number, rest))
}

/// A connection to a server without sockets. A clone shares the server.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    pub(crate) server: Arc<Server>,
    /// Whether a reply is pending when it is first polled, as the reply of a real server is.
    pub(crate) is_pending_once: bool,
}

impl ConnectionLike for Scripted {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        // Every client writes a command into a buffer.
        black_box(cmd.get_packed_command());
        let parts = cmd.args_iter().map(|arg| match arg {
            Arg::Simple(part) => part,
            _ => b"",
        });
        let mut reply = Some(match self.server.answer(parts) {
            Reply::Nil => Value::Nil,
            Reply::One => Value::Int(1),
            Reply::Text(text) => Value::BulkString(text.to_vec()),
        });
        let mut is_pending = self.is_pending_once;
        Box::pin(poll_fn(move |context| {
            if std::mem::take(&mut is_pending) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(reply.take().expect("no poll after the reply")))
        }))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        // A call sends no pipeline on a connection of the caller.
        let refused = RedisError::from((ErrorKind::Client, "this server answers no pipelines"));
        Box::pin(ready(Err(refused)))
    }

    fn get_db(&self) -> i64 {
        0
    }
}
