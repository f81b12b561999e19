//! A connection between a client and its server that fails at one message.

use std::io::{Read, Write};
use std::iter;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Where the connection fails. A message is everything that a client sends before the next answer. The first message is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Point {
    /// This message does not arrive.
    Lost(usize),
    /// This message arrives. The server may or may not execute it.
    Delivered(usize),
    /// The server executes this message, but the answer does not arrive.
    Unanswered(usize),
    /// `PostgreSQL` commits, but the answer does not arrive. The number of a message is not exact if the client sends some without waiting
    /// for their answers; this point is.
    CommitUnanswered,
}

impl Point {
    /// All points, from the first message on.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).flat_map(|at| [Self::Lost(at), Self::Delivered(at), Self::Unanswered(at)])
    }
}

/// A listener that forwards connections to a server. The first connection fails at a point.
pub struct Wire {
    from: u16,
    to: u16,
    reached: Receiver<()>,
    deliver: Sender<()>,
}

impl Wire {
    /// From the point on nothing is forwarded, and both ends wait. A message that arrives at the point is held until
    /// [`deliver`](Self::deliver). Later connections are closed at once.
    pub fn to(port: u16, point: Point) -> Self {
        Self::new(port, point, End::Silent)
    }

    /// At the point the connection is closed. Later connections do not fail.
    pub fn cut(port: u16, point: Point) -> Self {
        Self::new(port, point, End::Closed)
    }

    fn new(port: u16, point: Point, end: End) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let from = listener.local_addr().unwrap().port();
        let (reach, reached) = channel();
        let (deliver, delivered) = channel();
        if end == End::Closed {
            deliver.send(()).unwrap();
        }
        thread::spawn(move || {
            let session = Session {
                point: Some(point),
                end,
                reach,
                delivered: Mutex::new(delivered),
                state: Mutex::new(State::Answered(0)),
            };
            let sessions = iter::once(session).chain(iter::repeat_with(Session::whole));
            for (at, (session, client)) in sessions.zip(listener.incoming()).enumerate() {
                let client = client.unwrap();
                // The listener keeps its port: the client would reach the server of another test there.
                if at > 0 && end == End::Silent {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                carry(client, server, session);
            }
        });
        Self {
            from,
            to: port,
            reached,
            deliver,
        }
    }

    /// The URL of a database, through this wire.
    pub fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", self.to), &format!(":{}/", self.from))
    }

    /// Waits until the point is reached. Returns `false` if the connection ends first.
    pub fn reached(&self) -> bool {
        self.reached.recv().is_ok()
    }

    /// Whether the point was reached since the last question.
    pub fn was_reached(&self) -> bool {
        self.reached.try_recv().is_ok()
    }

    /// Forwards the message that is held at the point, if one is.
    pub fn deliver(&self) {
        // The connection may have ended in the meantime.
        let _ = self.deliver.send(());
    }
}

/// What both ends see after the point.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Silent,
    Closed,
}

/// Forwards both directions of a connection until it ends.
fn carry(client: TcpStream, server: TcpStream, session: Session) {
    let ends = Arc::new((client, server, session));
    let answers = Arc::clone(&ends);
    thread::spawn(move || {
        let (client, server, session) = &*answers;
        pass(server, client, session, Session::answer_passes);
    });
    thread::spawn(move || {
        let (client, server, session) = &*ends;
        pass(client, server, session, Session::message_passes);
    });
}

fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    session: &Session,
    passes: fn(&Session, &[u8]) -> bool,
) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if passes(session, &chunk[..length]) && to.write_all(&chunk[..length]).is_err() {
            break;
        }
        if session.is_over() {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

struct Session {
    point: Option<Point>,
    end: End,
    reach: Sender<()>,
    /// Becomes ready when the message at the point may arrive.
    delivered: Mutex<Receiver<()>>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// The server has answered; the next message has this number.
    Answered(usize),
    /// The client is sending the message of this number, or waits for its answer.
    Sent(usize),
    /// The point is reached.
    Cut,
}

impl Session {
    /// A connection that does not fail.
    fn whole() -> Self {
        Self {
            point: None,
            end: End::Closed,
            reach: channel().0,
            delivered: Mutex::new(channel().1),
            state: Mutex::new(State::Answered(0)),
        }
    }

    fn is_over(&self) -> bool {
        self.end == End::Closed && matches!(*self.state.lock().unwrap(), State::Cut)
    }

    fn message_passes(&self, _: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap();
        let (State::Answered(at) | State::Sent(at)) = *state else {
            return false;
        };
        *state = State::Sent(at);
        let delivered = self.point == Some(Point::Delivered(at));
        if delivered || self.point == Some(Point::Lost(at)) {
            *state = State::Cut;
            drop(state);
            self.reach.send(()).unwrap();
            return delivered && self.delivered.lock().unwrap().recv().is_ok();
        }
        true
    }

    fn answer_passes(&self, answer: &[u8]) -> bool {
        let is_at_point = |at| match self.point {
            Some(Point::CommitUnanswered) => answer.windows(7).any(|word| word == b"COMMIT\0"),
            point => point == Some(Point::Unanswered(at)),
        };
        let mut state = self.state.lock().unwrap();
        match *state {
            State::Sent(at) if is_at_point(at) => {
                *state = State::Cut;
                self.reach.send(()).unwrap();
                false
            }
            State::Sent(at) => {
                *state = State::Answered(at + 1);
                true
            }
            State::Answered(_) => true,
            State::Cut => false,
        }
    }
}

/// A listener that forwards connections to a server. Each connection is closed after a number of bytes, counted in both directions.
pub struct CutBytes {
    from: u16,
    to: u16,
    connections: Arc<AtomicUsize>,
}

impl CutBytes {
    /// Closes the connections after these numbers of bytes.
    pub fn new(port: u16, bytes: impl Iterator<Item = usize> + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let from = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for (client, left) in listener.incoming().zip(bytes) {
                count.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let ends = Arc::new((client.unwrap(), server, Mutex::new(left)));
                let answers = Arc::clone(&ends);
                thread::spawn(move || pass_bytes(&answers.1, &answers.0, &answers.2));
                thread::spawn(move || pass_bytes(&ends.0, &ends.1, &ends.2));
            }
        });
        Self {
            from,
            to: port,
            connections,
        }
    }

    /// The URL of a database, through this listener.
    pub fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", self.to), &format!(":{}/", self.from))
    }

    /// The port of this listener.
    pub fn port(&self) -> u16 {
        self.from
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Forwards one direction until `left` bytes of both directions were forwarded.
fn pass_bytes(mut from: &TcpStream, mut to: &TcpStream, left: &Mutex<usize>) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        let mut left = left.lock().unwrap();
        let passed = length.min(*left);
        *left -= passed;
        if to.write_all(&chunk[..passed]).is_err() || *left == 0 {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
