//! A connection that is made anew when it broke.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ::redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use ::redis::{
    Arg, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind,
    Value, cmd,
};
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::link::{Link, in_time};
use super::topology::Topology;

/// A connection to one server, to the master that sentinels watch over, or to a cluster. It is shared
/// by all clones, and made anew by the next command after it broke.
///
/// A command waits for its reply as long as its caller does, and is never sent twice, but to a
/// cluster, whose client follows redirections and repeats what was lost. In three things this
/// differs from the client's own [`ConnectionManager`](::redis::aio::ConnectionManager): a
/// reconnection that was refused, by a password that was wrong for a moment or by too many clients,
/// is tried again, ten times a second at most; a server that became a replica is left, so that an
/// address that moved to the new primary is followed; and where a caller gave up waiting for a reply,
/// a question of our own follows, and a connection on which that is not answered within a second is
/// given up.
#[derive(Clone)]
pub struct RedisConnection {
    shared: Arc<Inner>,
}

struct Inner {
    topology: Arc<Topology>,
    current: Mutex<Current>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to whom it matters, and it would keep the connection open meanwhile.
        let current = self.current.get_mut();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        if let Some(doubts) = current.doubts.take() {
            doubts.abort();
        }
    }
}

/// The connection in use, or on its way, with its number.
struct Current {
    number: u64,
    connection: Option<Connecting>,
    /// Until then, a connection that failed is not tried again.
    again: Option<Instant>,
    doubts: Option<JoinHandle<()>>,
}

type Connecting = Shared<BoxFuture<'static, RedisResult<Link>>>;

impl RedisConnection {
    /// Makes a connection to one server, which connects with the first command.
    pub fn new(client: Client) -> Self {
        Self::to(Arc::new(Topology::Server(client)))
    }

    pub(super) fn to(topology: Arc<Topology>) -> Self {
        let current = Mutex::new(Current {
            number: 0,
            connection: None,
            again: None,
            doubts: None,
        });
        Self {
            shared: Arc::new(Inner { topology, current }),
        }
    }

    /// A connection of its own to the same servers.
    pub(super) fn another(&self) -> Self {
        Self::to(Arc::clone(&self.shared.topology))
    }

    /// Connects, unless it is connected: what is wrong with the connection is not to be taken for the
    /// answer to a command.
    pub(super) async fn connect(&self) -> RedisResult<()> {
        let (number, connection) = self.acquire();
        let connected = connection.await.inspect_err(|_| self.rest(number));
        connected.map(drop)
    }

    /// Whether its client mends what broke by itself, and may send a command twice for that.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(*self.shared.topology, Topology::Cluster(_))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let current = self.shared.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire(&self) -> (u64, Connecting) {
        let mut current = self.current();
        let tired = current.again.is_some_and(|again| again <= Instant::now());
        if let (Some(connection), false) = (&current.connection, tired) {
            return (current.number, connection.clone());
        }
        let topology = Arc::clone(&self.shared.topology);
        // Shared, so that the callers who wait for it fail together instead of one after another.
        let connection = async move { topology.connect().await }.boxed().shared();
        current.set(Some(connection.clone()));
        let (number, shared) = (current.number, Arc::downgrade(&self.shared));
        // In a task, so that it goes on when the caller who began it is dropped, and a failure that
        // nobody waited for does not hold longer than any other.
        tokio::spawn(connection.clone().map(move |made| {
            if let (Err(_), Some(shared)) = (made, shared.upgrade()) {
                Self { shared }.rest(number);
            }
        }));
        (number, connection)
    }

    /// Lets the next command connect anew, unless that was seen to already.
    fn forget(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.set(None);
        }
    }

    /// Has the failure of a connection hold for a moment: whoever is refused is not to knock with
    /// every command.
    fn rest(&self, number: u64) {
        let mut current = self.current();
        if current.number == number && current.again.is_none() {
            current.again = Some(Instant::now() + REST);
        }
    }

    async fn send<T>(
        &self,
        cmd: Option<&Cmd>,
        send: impl AsyncFnOnce(&mut Link) -> RedisResult<T>,
        is_refused: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T> {
        let (number, connection) = self.acquire();
        let mut link = connection.await.inspect_err(|_| self.rest(number))?;
        let mut call = Call {
            connection: self,
            number,
            cmd,
            answered: false,
        };
        let reply = send(&mut link).await;
        call.answered = match (&link, &reply) {
            (Link::Server(_), _) | (_, Ok(_)) => true,
            // The client may have lost the node, the whole cluster, or the runtime that it ran on.
            (Link::Cluster(_), Err(error)) => is_answer(error),
        };
        if let Link::Server(_) = link
            && reply.as_ref().map_or_else(is_over, is_refused)
        {
            self.forget(number);
        }
        reply
    }

    /// Sees to it that a connection is left that does not answer any more.
    fn doubt(&self, number: u64, question: Cmd) {
        let mut current = self.current();
        let doubted = current
            .doubts
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if current.number != number || doubted {
            return;
        }
        let link = current.connection.clone().and_then(FutureExt::now_or_never);
        if let (Ok(runtime), Some(Ok(link))) = (Handle::try_current(), link) {
            let doubting = examine(Arc::downgrade(&self.shared), number, link, question);
            current.doubts = Some(runtime.spawn(doubting));
        }
    }

    fn replace(&self, number: u64, link: Link) {
        let mut current = self.current();
        if current.number == number {
            let connection = future::ready(Ok(link)).boxed().shared();
            current.set(Some(connection));
        }
    }
}

impl Current {
    fn set(&mut self, connection: Option<Connecting>) {
        self.number += 1;
        self.connection = connection;
        self.again = None;
    }
}

/// How long a connection that failed is not tried again.
const REST: Duration = Duration::from_millis(100);

/// After this long without any reply a server is taken for gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// A command on its way. If it is dropped without an answer, the connection is in doubt.
struct Call<'a> {
    connection: &'a RedisConnection,
    number: u64,
    cmd: Option<&'a Cmd>,
    answered: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.connection.doubt(self.number, question(self.cmd));
        }
    }
}

/// What is asked of those who owe the answer to `command`: of its key, so that in a cluster the same
/// node is asked.
fn question(command: Option<&Cmd>) -> Cmd {
    let mut args = command.into_iter().flat_map(Cmd::args_iter);
    let key = match args.next() {
        Some(Arg::Simple(b"EVALSHA" | b"EVAL")) => args.nth(2),
        _ => args.next(),
    };
    match key {
        Some(Arg::Simple(key)) => cmd("PTTL").arg(key).clone(),
        _ => cmd("PING"),
    }
}

async fn examine(doubted: Weak<Inner>, number: u64, mut link: Link, question: Cmd) {
    if answers(&mut link, &question).await {
        return;
    }
    // Nobody uses it any more.
    let Some(shared) = doubted.upgrade() else {
        return;
    };
    let connection = RedisConnection { shared };
    if let Link::Server(_) = link {
        return connection.forget(number);
    }
    // Other nodes may be well: they are left only for a connection that can do more, or when there is
    // nobody at all.
    let Ok(mut link) = connection.shared.topology.connect().await else {
        return connection.forget(number);
    };
    if answers(&mut link, &question).await {
        connection.replace(number, link);
    }
}

/// Whether there is a reply in time, of whatever kind.
async fn answers(link: &mut Link, question: &Cmd) -> bool {
    match in_time(PATIENCE, link.command(question)).await {
        Ok(_) => true,
        Err(error) => is_answer(&error) && !error.is_cluster_error(),
    }
}

fn is_answer(error: &RedisError) -> bool {
    error.clone().into_server_errors().is_some()
}

/// Whether nothing good can come from this connection any more.
pub(super) fn is_over(error: &RedisError) -> bool {
    let replica = matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    );
    let broken = error.is_unrecoverable_error() || error.is_io_error();
    broken || replica || error.code() == Some("NOAUTH")
}

/// Whether this client sends a command once. One that is not known may send it again by itself.
pub(super) fn sends_once<C: ConnectionLike + 'static>(client: &C) -> bool {
    let client: &dyn Any = client;
    match client.downcast_ref::<RedisConnection>() {
        Some(connection) => !connection.is_cluster(),
        None => client.is::<ConnectionManager>() || client.is::<MultiplexedConnection>(),
    }
}

/// Where a client leads, without a password.
pub(super) fn place_of<C: ConnectionLike + 'static>(client: &C) -> Arc<str> {
    let client: &dyn Any = client;
    match client.downcast_ref::<RedisConnection>() {
        Some(connection) => connection.shared.topology.to_string().into(),
        None => "redis".into(),
    }
}

fn is_refusal(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
        && reply
            .clone()
            .extract_error()
            .is_err_and(|error| is_over(&error))
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let reply = async move |link: &mut Link| link.command(cmd).await;
        // The client of one server hands on what was refused as a reply, too.
        self.send(Some(cmd), reply, is_refusal).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let replies = async move |link: &mut Link| link.pipeline(pipeline, offset, count).await;
        let is_refused = |replies: &Vec<Value>| replies.iter().any(is_refusal);
        self.send(pipeline.cmd_iter().next(), replies, is_refused)
            .boxed()
    }

    fn get_db(&self) -> i64 {
        self.shared.topology.db()
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConnection({})", self.shared.topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_about_the_key_of_the_command() {
        let asked = |command: &Cmd| question(Some(command)).get_packed_command();
        let expected = cmd("PTTL").arg("key").get_packed_command();
        for command in [
            cmd("SET").arg("key").arg("value"),
            cmd("GET").arg("key"),
            cmd("EVALSHA").arg("hash").arg(1).arg("key").arg("value"),
            cmd("EVAL").arg("return").arg(1).arg("key"),
        ] {
            assert_eq!(asked(command), expected);
        }
        let ping = cmd("PING").get_packed_command();
        assert_eq!(asked(&cmd("INFO")), ping);
        assert_eq!(question(None).get_packed_command(), ping);
    }
}
