//! A proxy that applies a fault to one message between a client and a Redis server.

mod message;

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Forwards messages between clients and a Redis server, counts them, and applies a planned fault to one
/// of them.
///
/// Messages are counted over all connections: each command of a pipeline and each of its replies
/// counts. Pushes of a server that speaks RESP3 are forwarded and not counted.
/// Dropping the proxy closes every connection. It cannot read TLS.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
///
/// let server = RedisServer::start()?;
/// let proxy = RedisProxy::start(("127.0.0.1", server.port()))?;
/// // The next reply never arrives.
/// proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RedisProxy {
    port: u16,
    shared: Arc<Shared>,
}

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the server.
    Request,
    /// From the server to a client.
    Reply,
}

/// What a [`RedisProxy`] does to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyFault {
    /// The message is lost, and its connection is closed.
    Close,
    /// The message is lost, and so are all later messages on its connection in its direction.
    Silence,
    /// The message arrives late, and before all later messages on its connection. A request arrives
    /// even if its client has closed the connection by then.
    Delay(Duration),
    /// A request arrives twice, and its client gets only the first reply. A reply is forwarded once,
    /// because nothing on a connection repeats a reply.
    Repeat,
    /// Half of the bytes arrive, then the connection is closed.
    Cut,
    /// Only this message is lost. After a lost reply each later reply on its connection is the answer to another command.
    Lose,
    /// The message arrives twice. After a reply that arrives twice each later reply is the answer to another command.
    Double,
}

impl ProxyFault {
    /// The five faults of a network, with this delay: no network loses or repeats a single message of a connection.
    pub const fn all(delay: Duration) -> [Self; 5] {
        [
            Self::Close,
            Self::Silence,
            Self::Delay(delay),
            Self::Repeat,
            Self::Cut,
        ]
    }
}

/// What a [`RedisProxy`] has forwarded since its last plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Commands of clients, including lost ones.
    pub requests: usize,
    /// Replies of the server, including lost ones.
    pub replies: usize,
    /// Whether the planned fault was applied to a message.
    pub fault_applied: bool,
}

impl RedisProxy {
    /// Listens on a free port of the loopback interface for the server at this address.
    ///
    /// If the server does not run, the proxy closes the connections of clients.
    ///
    /// # Errors
    ///
    /// If the address cannot be resolved, or no port is free.
    pub fn start(server: impl ToSocketAddrs) -> io::Result<Self> {
        let server = server.to_socket_addrs()?.next();
        let server = server.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            server,
            state: Mutex::new(State {
                open: true,
                ..State::default()
            }),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Ok(Self { port, shared })
    }

    /// The URL of the proxy, such as `redis://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port of the proxy on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Applies `fault` to the message with this index among the next messages in this direction; the
    /// next message has index 0. Replaces the earlier plan and resets [`traffic`](Self::traffic).
    pub fn plan(&self, direction: Direction, index: usize, fault: ProxyFault) {
        let mut state = self.shared.state();
        state.traffic = Traffic::default();
        state.plan = Some((direction, index, fault));
    }

    /// The traffic since the last [`plan`](Self::plan), or since the start.
    pub fn traffic(&self) -> Traffic {
        self.shared.state().traffic
    }

    /// Closes every connection, including silent ones. New connections are accepted.
    pub fn close_connections(&self) {
        for link in &self.shared.state().links {
            if let Some(link) = link.upgrade() {
                link.close();
            }
        }
    }
}

impl Drop for RedisProxy {
    fn drop(&mut self) {
        self.shared.state().open = false;
        self.close_connections();
        // Wakes the thread that accepts connections. If this fails, the thread has ended.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    plan: Option<(Direction, usize, ProxyFault)>,
    traffic: Traffic,
    /// The open connections.
    links: Vec<Weak<Link>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            // Without a server the connection of the client is dropped, which closes it.
            let link = client.and_then(|client| Link::new(client, self.server));
            let mut state = self.state();
            if !state.open {
                return;
            }
            let Ok(link) = link.map(Arc::new) else {
                continue;
            };
            state.links.retain(|link| link.strong_count() > 0);
            state.links.push(Arc::downgrade(&link));
            drop(state);
            for direction in [Direction::Request, Direction::Reply] {
                let (shared, link) = (Arc::clone(self), Arc::clone(&link));
                // An error means that the connection ended, which needs no handling.
                thread::spawn(move || shared.pass(direction, &link));
            }
        }
    }

    /// Forwards all messages of a connection in one direction.
    fn pass(&self, direction: Direction, link: &Link) -> io::Result<()> {
        let (from, to) = match direction {
            Direction::Request => (&link.client, &link.server),
            Direction::Reply => (&link.server, &link.client),
        };
        let mut from = BufReader::new(from);
        let mut to = to;
        let mut silent = false;
        while let Some(message) = message::read(&mut from).inspect_err(|_| link.close())? {
            if direction == Direction::Reply && !link.is_awaited(&message) {
                continue;
            }
            let fault = self.count(direction, &message);
            let mut times = 1;
            match fault {
                Some(ProxyFault::Close) => link.close(),
                Some(ProxyFault::Cut) => {
                    let _ = to.write_all(&message[..message.len() / 2]);
                    link.close();
                }
                Some(ProxyFault::Silence) => silent = true,
                Some(ProxyFault::Lose) => times = 0,
                Some(ProxyFault::Double) => times = 2,
                Some(ProxyFault::Delay(delay)) => thread::sleep(delay),
                Some(ProxyFault::Repeat) if direction == Direction::Request => times = 2,
                Some(ProxyFault::Repeat) | None => {}
            }
            if silent {
                continue;
            }
            if direction == Direction::Request {
                link.expect_replies(times, fault == Some(ProxyFault::Double));
            }
            // If the receiver has closed its side, the proxy still reads from the sender to the end.
            let _ = to.write_all(&message.repeat(times));
        }
        let _ = to.shutdown(match direction {
            // The server may still have to answer.
            Direction::Request => Shutdown::Write,
            Direction::Reply => Shutdown::Both,
        });
        Ok(())
    }

    /// Counts a message and returns the fault that is planned for it.
    fn count(&self, direction: Direction, message: &[u8]) -> Option<ProxyFault> {
        if message::is_push(message) {
            return None;
        }
        let mut state = self.state();
        let count = match direction {
            Direction::Request => &mut state.traffic.requests,
            Direction::Reply => &mut state.traffic.replies,
        };
        let index = *count;
        *count += 1;
        let planned = state
            .plan
            .filter(|plan| (plan.0, plan.1) == (direction, index));
        state.traffic.fault_applied |= planned.is_some();
        planned.map(|(_, _, fault)| fault)
    }
}

/// The connection of a client and its connection to the server.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// For each outstanding reply: whether it goes to the client.
    awaited: Mutex<VecDeque<bool>>,
}

impl Link {
    fn new(client: TcpStream, server: SocketAddr) -> io::Result<Self> {
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Self {
            client,
            server,
            awaited: Mutex::default(),
        })
    }

    fn close(&self) {
        for stream in [&self.client, &self.server] {
            // The stream may already be closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Expects `times` replies, of which the first goes to the client, and the others only if the client gets `all`.
    fn expect_replies(&self, times: usize, all: bool) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        awaited.extend((0..times).map(|time| all || time == 0));
    }

    /// Whether this message goes to the client: a reply that it awaits, or a push.
    fn is_awaited(&self, message: &[u8]) -> bool {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        message::is_push(message) || awaited.pop_front().unwrap_or(true)
    }
}
