//! A connection between a client and its server that fails at one message.

use std::io::{Read, Write};
use std::iter;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Where the connection fails. A message is everything that a client sends before the next answer; the first is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Point {
    /// This message does not arrive.
    Unheard(usize),
    /// This message arrives; whether the server executes it is a race.
    Heard(usize),
    /// The server executes this message, but the answer does not arrive.
    Unanswered(usize),
}

impl Point {
    /// All points, from the first message on.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..).flat_map(|at| [Self::Unheard(at), Self::Heard(at), Self::Unanswered(at)])
    }
}

/// A listener that forwards connections to a server; the first one fails at a point.
pub(crate) struct Wire {
    from: u16,
    to: u16,
    reached: Receiver<()>,
}

impl Wire {
    /// From the point on nothing passes, and both ends wait.
    #[allow(dead_code, reason = "not every test stops its connections")]
    pub(crate) fn to(port: u16, point: Point) -> Self {
        Self::new(port, point, End::Silent)
    }

    /// At the point the connection is closed. Later connections do not fail.
    #[allow(dead_code, reason = "not every test cuts its connections")]
    pub(crate) fn cut(port: u16, point: Point) -> Self {
        Self::new(port, point, End::Closed)
    }

    fn new(port: u16, point: Point, end: End) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let from = listener.local_addr().unwrap().port();
        let (reach, reached) = channel();
        thread::spawn(move || {
            let talk = Talk {
                point: Some(point),
                end,
                reach,
                state: Mutex::new(State::Answered(0)),
            };
            let connections = match end {
                End::Silent => 1,
                End::Closed => usize::MAX,
            };
            let others = |_| Talk::whole();
            let talks = iter::once(talk).chain((1..connections).map(others));
            for (talk, client) in talks.zip(listener.incoming()) {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                carry(client.unwrap(), server, talk);
            }
        });
        Self {
            from,
            to: port,
            reached,
        }
    }

    /// The URL of a database, through this wire.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", self.to), &format!(":{}/", self.from))
    }

    /// Waits until the point is reached. Returns `false` if the connection ends before.
    pub(crate) fn reached(&self) -> bool {
        self.reached.recv().is_ok()
    }
}

/// What both ends see after the point.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Silent,
    Closed,
}

/// Forwards both directions of a connection until it ends.
fn carry(client: TcpStream, server: TcpStream, talk: Talk) {
    let ends = Arc::new((client, server, talk));
    let answers = Arc::clone(&ends);
    thread::spawn(move || {
        let (client, server, talk) = &*answers;
        pass(server, client, talk, Talk::answer_passes);
    });
    thread::spawn(move || {
        let (client, server, talk) = &*ends;
        pass(client, server, talk, Talk::message_passes);
    });
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, talk: &Talk, passes: fn(&Talk) -> bool) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if passes(talk) && to.write_all(&chunk[..length]).is_err() {
            break;
        }
        if talk.is_over() {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

struct Talk {
    point: Option<Point>,
    end: End,
    reach: Sender<()>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// The server has answered; the next message has this number.
    Answered(usize),
    /// The client is sending the message of this number, or waits for its answer.
    Asked(usize),
    /// The point is reached.
    Cut,
}

impl Talk {
    /// A connection that does not fail.
    fn whole() -> Self {
        Self {
            point: None,
            end: End::Closed,
            reach: channel().0,
            state: Mutex::new(State::Answered(0)),
        }
    }

    fn is_over(&self) -> bool {
        self.end == End::Closed && matches!(*self.state.lock().unwrap(), State::Cut)
    }

    fn message_passes(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let (State::Answered(at) | State::Asked(at)) = *state else {
            return false;
        };
        *state = State::Asked(at);
        let heard = self.point == Some(Point::Heard(at));
        if heard || self.point == Some(Point::Unheard(at)) {
            *state = State::Cut;
            self.reach.send(()).unwrap();
            return heard;
        }
        true
    }

    fn answer_passes(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        match *state {
            State::Asked(at) if self.point == Some(Point::Unanswered(at)) => {
                *state = State::Cut;
                self.reach.send(()).unwrap();
                false
            }
            State::Asked(at) => {
                *state = State::Answered(at + 1);
                true
            }
            State::Answered(_) => true,
            State::Cut => false,
        }
    }
}
