//! A connection that reconnects.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use ::redis::{Client, Cmd, RedisResult};
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::client::link::Link;
use crate::client::probe::{has_answer, is_answer, probe_command};
use crate::client::slots::Slots;
use crate::client::topology::Topology;
use crate::client::unusable::is_unusable;

/// A connection to one server, to the master behind sentinels, or to a cluster. All clones share it. If it breaks, the next
/// command reconnects.
///
/// A command waits for its reply as long as its caller waits, and is sent once. Only the client of a cluster follows
/// redirections and repeats lost commands. There are three differences from the client's
/// [`ConnectionManager`](::redis::aio::ConnectionManager):
///
/// * `RedisConnection` retries a refused reconnection, at most ten times a second, because a wrong password or too many clients
///   may be temporary;
/// * `RedisConnection` drops the connection to a server that became a replica. So it follows an address to the new primary;
/// * when a caller stops waiting for a reply, `RedisConnection` sends a probe. It drops the connection if the probe has no reply
///   within a second.
#[derive(Clone)]
pub struct RedisConnection {
    shared: Arc<Inner>,
}

struct Inner {
    topology: Arc<Topology>,
    current: RwLock<Current>,
    /// The masters of a cluster, if commands go straight to them.
    masters: Option<Slots<RedisConnection>>,
}

pub(crate) struct WeakConnection(Weak<Inner>);

impl WeakConnection {
    pub(crate) fn upgrade(&self) -> Option<RedisConnection> {
        let shared = self.0.upgrade()?;
        Some(RedisConnection { shared })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No clone uses the connection any more, but the probe would keep it open.
        let current = self.current.get_mut();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        if let Some(probe) = current.probe.take() {
            probe.task.abort();
        }
    }
}

/// The connection in use, or the latest attempt to connect.
struct Current {
    /// Grows with each replacement of `connection`, so that a late caller does not replace a newer connection.
    generation: u64,
    connection: Option<Connection>,
    /// When a failed connection may be tried again.
    retry_at: Option<Instant>,
    probe: Option<ConnectionProbe>,
}

struct ConnectionProbe {
    since: Instant,
    task: JoinHandle<()>,
}

enum Connection {
    Made(Link),
    Making(SharedLink),
}

/// An attempt to connect, which runs or has failed. All its callers get the same outcome.
type SharedLink = Shared<BoxFuture<'static, RedisResult<Link>>>;

impl RedisConnection {
    /// Makes a connection to one server, which connects with the first command.
    pub fn new(client: Client) -> Self {
        Self::for_topology(Arc::new(Topology::Server(client)))
    }

    pub(crate) fn for_topology(topology: Arc<Topology>) -> Self {
        Self::with_masters(topology, None)
    }

    /// Makes a connection that sends the commands on records of a cluster straight to their node.
    ///
    /// The client of the cluster sends a command if its node is not known or not connected, or has refused the command.
    pub(crate) fn straight_to(topology: Arc<Topology>) -> Self {
        let is_cluster = matches!(*topology, Topology::Cluster(_));
        Self::with_masters(topology, is_cluster.then(Slots::new))
    }

    fn with_masters(topology: Arc<Topology>, masters: Option<Slots<Self>>) -> Self {
        let current = RwLock::new(Current {
            generation: 0,
            connection: None,
            retry_at: None,
            probe: None,
        });
        Self {
            shared: Arc::new(Inner {
                topology,
                current,
                masters,
            }),
        }
    }

    /// Makes another connection to the same servers.
    pub(crate) fn duplicate(&self) -> Self {
        Self::for_topology(Arc::clone(&self.shared.topology))
    }

    /// Connects unless it is connected. Call it before a command, so that no caller reads an error of connecting as the answer
    /// to the command.
    pub(crate) async fn connect(&self) -> RedisResult<()> {
        match self.made() {
            Some(_) => Ok(()),
            None => self.make().await.map(drop),
        }
    }

    /// Whether this is a connection to a cluster. The client of a cluster reconnects by itself and may send a command twice.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(*self.shared.topology, Topology::Cluster(_))
    }

    fn current(&self) -> RwLockWriteGuard<'_, Current> {
        let current = self.shared.current.write();
        current.unwrap_or_else(PoisonError::into_inner)
    }

    /// A reference that does not keep the connection open.
    pub(crate) fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.shared))
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// The masters of a cluster, if commands go straight to them.
    pub(crate) fn masters(&self) -> Option<&Slots<Self>> {
        self.shared.masters.as_ref()
    }

    /// The connection and its generation, if it is made and answers. Otherwise starts to connect.
    pub(crate) fn usable(&self) -> Option<(u64, Link)> {
        self.if_usable(|generation, link| (generation, link.clone()))
    }

    pub(crate) fn if_usable<T>(&self, read: impl FnOnce(u64, &Link) -> T) -> Option<T> {
        let current = self.shared.current.read();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        if let Some(Connection::Made(link)) = &current.connection {
            let is_silent = current
                .probe
                .as_ref()
                .is_some_and(ConnectionProbe::is_overdue);
            return (!is_silent).then(|| read(current.generation, link));
        }
        drop(current);
        if Handle::try_current().is_ok() {
            // A task makes the connection.
            drop(self.acquire());
        }
        None
    }

    /// The connection and its generation, if it is made.
    pub(crate) fn made(&self) -> Option<(u64, Link)> {
        let current = self.shared.current.read();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        match &current.connection {
            Some(Connection::Made(link)) => Some((current.generation, link.clone())),
            _ => None,
        }
    }

    /// Connects, or waits for the attempt that runs.
    async fn make(&self) -> RedisResult<(u64, Link)> {
        let (generation, connection) = self.acquire();
        let made = connection.await;
        let link = made.inspect_err(|_| self.delay_retry(generation))?;
        Ok((generation, link))
    }

    fn acquire(&self) -> (u64, SharedLink) {
        let mut current = self.current();
        // Until `retry_at`, callers get the failed attempt again, with its error.
        let may_retry = current.retry_at.is_some_and(|at| at <= Instant::now());
        match &current.connection {
            Some(Connection::Making(connection)) if !may_retry => {
                return (current.generation, connection.clone());
            }
            // Another caller has just made it.
            Some(Connection::Made(link)) => return (current.generation, ready(link.clone())),
            _ => {}
        }
        let topology = Arc::clone(&self.shared.topology);
        // Shared, so that all waiting callers fail together instead of one after another.
        let connection = async move { topology.connect().await }.boxed().shared();
        current.set(Some(Connection::Making(connection.clone())));
        let (generation, shared) = (current.generation, Arc::downgrade(&self.shared));
        // A task, so that connecting continues if its caller is dropped, and a failed attempt is retried after `RETRY_DELAY`.
        tokio::spawn(connection.clone().map(move |made| {
            let connection = shared.upgrade().map(|shared| Self { shared });
            match (made, connection) {
                (Ok(link), Some(connection)) => connection.adopt(generation, link),
                (Err(_), Some(connection)) => connection.delay_retry(generation),
                (_, None) => {}
            }
        }));
        (generation, connection)
    }

    /// Lets commands use `link` without a wait for the attempt that made it.
    fn adopt(&self, generation: u64, link: Link) {
        let mut current = self.current();
        if current.generation == generation {
            current.connection = Some(Connection::Made(link));
        }
    }

    /// Makes the next command reconnect, unless the connection was replaced already.
    fn forget(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation {
            current.set(None);
        }
    }

    /// Delays the next attempt to connect, so that a refused client does not reconnect with every command.
    fn delay_retry(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation && current.retry_at.is_none() {
            current.retry_at = Some(Instant::now() + RETRY_DELAY);
        }
    }

    pub(crate) async fn send<T>(
        &self,
        cmd: Option<&Cmd>,
        send: impl AsyncFnOnce(&mut Link) -> RedisResult<T>,
        is_unusable_reply: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T> {
        let made = match self.made() {
            Some(made) => made,
            None => Box::pin(self.make()).await?,
        };
        self.send_by(made, cmd, send, is_unusable_reply).await
    }

    /// Sends over a link of this generation.
    pub(crate) async fn send_by<T>(
        &self,
        (generation, mut link): (u64, Link),
        cmd: Option<&Cmd>,
        send: impl AsyncFnOnce(&mut Link) -> RedisResult<T>,
        is_unusable_reply: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T> {
        let mut pending = PendingCommand {
            connection: self,
            generation,
            cmd,
            answered: false,
        };
        let reply = send(&mut link).await;
        pending.answered = match (&link, &reply) {
            // The client of one server reports a lost connection itself, so no probe is needed.
            (Link::Server(_), _) | (_, Ok(_)) => true,
            // The client may have lost the node, the whole cluster, or its runtime.
            (Link::Cluster(_), Err(error)) => is_answer(error),
        };
        if let Link::Server(_) = link
            && reply.as_ref().map_or_else(is_unusable, is_unusable_reply)
        {
            self.forget(generation);
        }
        reply
    }

    /// Starts a probe, which drops the connection if it does not answer.
    pub(crate) fn start_probe(&self, generation: u64, command: Cmd) {
        let mut current = self.current();
        let is_probed = current
            .probe
            .as_ref()
            .is_some_and(|probe| !probe.task.is_finished());
        if current.generation != generation || is_probed {
            return;
        }
        let link = match &current.connection {
            Some(Connection::Made(link)) => Some(link.clone()),
            Some(Connection::Making(connection)) => {
                connection.clone().now_or_never().and_then(Result::ok)
            }
            None => None,
        };
        if let (Ok(runtime), Some(link)) = (Handle::try_current(), link) {
            let probe = run_probe(Arc::downgrade(&self.shared), generation, link, command);
            current.probe = Some(ConnectionProbe {
                since: Instant::now(),
                task: runtime.spawn(probe),
            });
        }
    }

    fn replace(&self, generation: u64, link: Link) {
        let mut current = self.current();
        if current.generation == generation {
            current.set(Some(Connection::Made(link)));
        }
    }
}

impl ConnectionProbe {
    /// Whether the answer takes longer than usual.
    fn is_overdue(&self) -> bool {
        !self.task.is_finished() && self.since.elapsed() >= SILENCE
    }
}

impl Current {
    fn set(&mut self, connection: Option<Connection>) {
        self.generation += 1;
        self.connection = connection;
        self.retry_at = None;
    }
}

fn ready(link: Link) -> SharedLink {
    future::ready(Ok(link)).boxed().shared()
}

/// The pause after a failed connection.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The answer to a probe usually takes less than this. After this time a cluster's commands do not go straight to the node.
const SILENCE: Duration = Duration::from_millis(100);

/// A command without an answer yet. Dropping it without an answer starts a probe of the connection.
struct PendingCommand<'a> {
    connection: &'a RedisConnection,
    generation: u64,
    cmd: Option<&'a Cmd>,
    answered: bool,
}

impl Drop for PendingCommand<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.connection
                .start_probe(self.generation, probe_command(self.cmd));
        }
    }
}

/// Sends `command`, and drops or replaces the connection if there is no answer.
async fn run_probe(connection: Weak<Inner>, generation: u64, mut link: Link, command: Cmd) {
    if has_answer(&mut link, &command).await {
        return;
    }
    // No clone uses the connection any more.
    let Some(shared) = connection.upgrade() else {
        return;
    };
    let connection = RedisConnection { shared };
    if let Link::Server(_) = link {
        return connection.forget(generation);
    }
    // Other nodes may answer. So the connection is replaced only by one on which this node answers, and dropped only if no
    // node can be reached.
    let Ok(mut link) = connection.shared.topology.connect().await else {
        return connection.forget(generation);
    };
    if has_answer(&mut link, &command).await {
        connection.replace(generation, link);
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConnection({})", self.shared.topology)
    }
}
