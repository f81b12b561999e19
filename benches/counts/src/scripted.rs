//! A connection whose server is a script in this process.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use idempotence::store::redis::redis;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisFuture, Value};

/// A server for one kind of call. A clone is another connection to it.
#[derive(Debug, Clone)]
pub(crate) struct Scripted(Arc<Server>);

#[derive(Debug)]
struct Server {
    commands: AtomicU64,
    /// Whether a reply is pending when it is first polled, as the reply of a real server is.
    is_remote: bool,
    /// The record that the first call stored; `None` if the server has no record of any key.
    stored: Option<OnceLock<Vec<u8>>>,
}

impl Scripted {
    /// `stores` is whether all calls find the record of the first one.
    pub(crate) fn new(is_remote: bool, stores: bool) -> Self {
        Self(Arc::new(Server {
            commands: AtomicU64::new(0),
            is_remote,
            stored: stores.then(OnceLock::new),
        }))
    }

    pub(crate) fn commands(&self) -> u64 {
        self.0.commands.load(Ordering::Relaxed)
    }
}

impl Server {
    fn answer(&self, cmd: &Cmd) -> Value {
        let commands = self.commands.load(Ordering::Relaxed);
        self.commands.store(commands + 1, Ordering::Relaxed);
        // Every client writes a command into a buffer.
        black_box(cmd.get_packed_command());
        let mut args = cmd.args_iter();
        let mut next = || match args.next() {
            Some(Arg::Simple(arg)) => arg,
            _ => &[],
        };
        let stored = self.stored.as_ref();
        match next() {
            b"INFO" => Value::BulkString(INFO.into()),
            b"SET" => match stored.and_then(OnceLock::get) {
                Some(stored) => Value::BulkString(stored.clone()),
                None => Value::Nil,
            },
            b"EVALSHA" => {
                let [_hash, _keys, _key, _expected, value] = [(); 5].map(|()| next());
                if let Some(stored) = stored {
                    stored.get_or_init(|| value.to_vec());
                }
                Value::Int(1)
            }
            other => panic!("no script for {}", String::from_utf8_lossy(other)),
        }
    }
}

/// A server that claims keys by `SET`, and removes them by a script.
const INFO: &str =
    "redis_version:7.2.0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";

impl ConnectionLike for Scripted {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let mut is_pending = self.0.is_remote;
        let mut reply = Some(self.0.answer(cmd));
        Box::pin(std::future::poll_fn(move |context| {
            if std::mem::take(&mut is_pending) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(reply.take().expect("polled once after the reply")))
        }))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        unimplemented!("a call sends no pipeline")
    }

    fn get_db(&self) -> i64 {
        0
    }
}
