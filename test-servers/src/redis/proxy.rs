//! A proxy that harms one message between a client and a server.

mod message;

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Stands between clients and a Redis server, counts what passes, and harms one message by plan.
///
/// Messages are counted over all connections, each command of a pipeline and each of its replies for
/// itself. What a server pushes by itself is passed on and not counted, if its protocol is RESP3.
/// Every connection is cut when this is dropped. It cannot look into TLS.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
///
/// let server = RedisServer::start()?;
/// let proxy = RedisProxy::before(("127.0.0.1", server.port()))?;
/// // The next reply never comes.
/// proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RedisProxy {
    port: u16,
    shared: Arc<Shared>,
}

/// Which way a message goes.
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
    /// It is lost, and its connection is closed.
    Close,
    /// It is lost, and so is all that follows it on its connection in its direction.
    Silence,
    /// It comes late, and before all that follows it on its connection; a request comes also if its
    /// client has left by then.
    Delay(Duration),
    /// A request comes twice, and its client gets the first reply only. A reply is passed on once:
    /// nothing on a connection repeats it.
    Repeat,
    /// Half of its bytes come, then its connection is closed.
    Cut,
}

impl ProxyFault {
    /// All five, with this delay.
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

/// What a [`RedisProxy`] saw since its last plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Commands of clients, also those that were lost.
    pub requests: usize,
    /// Replies of the server, also those that were lost.
    pub replies: usize,
    /// Whether the planned fault has struck.
    pub struck: bool,
}

impl RedisProxy {
    /// Starts to listen on a free port of the loopback interface, for a server at this address.
    ///
    /// # Errors
    ///
    /// If the address makes no sense, or there is no free port. Of a server that is away its clients
    /// learn: their connections are closed.
    pub fn before(server: impl ToSocketAddrs) -> io::Result<Self> {
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

    /// Where it is, such as `redis://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has `fault` strike the message with this index, counted from 0, of those that pass in this
    /// direction from now on. Earlier plans are void, and [`seen`](Self::seen) starts at zero.
    pub fn plan(&self, direction: Direction, index: usize, fault: ProxyFault) {
        let mut state = self.shared.state();
        state.seen = Seen::default();
        state.plan = Some((direction, index, fault));
    }

    /// What passed since the last [`plan`](Self::plan), or since the start.
    pub fn seen(&self) -> Seen {
        self.shared.state().seen
    }

    /// Cuts every connection, silent ones too. New ones are taken.
    pub fn hang_up(&self) {
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
        self.hang_up();
        // Wakes the thread that accepts; if that fails, it is not there.
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
    seen: Seen,
    /// Of those that ended, nothing is kept.
    links: Vec<Weak<Link>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            // Without a server the client's connection is dropped: closed.
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
                // Its error is the end of the connection, which is no more than that.
                thread::spawn(move || shared.pass(direction, &link));
            }
        }
    }

    /// Passes on all messages of a connection in one direction.
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
                Some(ProxyFault::Delay(delay)) => thread::sleep(delay),
                Some(ProxyFault::Repeat) if direction == Direction::Request => times = 2,
                Some(ProxyFault::Repeat) | None => {}
            }
            if silent {
                continue;
            }
            if direction == Direction::Request {
                link.expect_replies(times);
            }
            // Who left is not told; the other side is heard to its end all the same.
            let _ = to.write_all(&message.repeat(times));
        }
        let _ = to.shutdown(match direction {
            // The server may still have something to say to what it was sent.
            Direction::Request => Shutdown::Write,
            Direction::Reply => Shutdown::Both,
        });
        Ok(())
    }

    /// Counts a message; returns what is to be done to it.
    fn count(&self, direction: Direction, message: &[u8]) -> Option<ProxyFault> {
        if message::is_push(message) {
            return None;
        }
        let mut state = self.state();
        let count = match direction {
            Direction::Request => &mut state.seen.requests,
            Direction::Reply => &mut state.seen.replies,
        };
        let index = *count;
        *count += 1;
        let planned = state
            .plan
            .filter(|plan| (plan.0, plan.1) == (direction, index));
        state.seen.struck |= planned.is_some();
        planned.map(|(_, _, fault)| fault)
    }
}

/// The two connections that look like one.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// Of each reply to come, whether the client awaits it.
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
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// One reply for the client, and the rest for nobody.
    fn expect_replies(&self, times: usize) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        awaited.extend((0..times).map(|time| time == 0));
    }

    /// Whether the client awaits this reply, or it is none but something else to be passed on.
    fn is_awaited(&self, message: &[u8]) -> bool {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        message::is_push(message) || awaited.pop_front().unwrap_or(true)
    }
}
