//! The wire between a client and its server, cut at one message.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A message is what a client sends before it hears of the server again. The first is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Point {
    /// This message does not arrive.
    Unheard(usize),
    /// This message arrives; whether it is carried out is a race.
    Heard(usize),
    /// This message is carried out, but the answer does not arrive.
    Unanswered(usize),
}

impl Point {
    /// All of them, from the first message on.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..).flat_map(|at| [Self::Unheard(at), Self::Heard(at), Self::Unanswered(at)])
    }
}

/// A wire for one connection. Nothing passes after the point.
pub(crate) struct Wire {
    from: u16,
    to: u16,
    reached: Receiver<()>,
}

impl Wire {
    pub(crate) fn to(port: u16, point: Point) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let from = listener.local_addr().unwrap().port();
        let (reach, reached) = channel();
        thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let talk = Talk {
                point,
                reach,
                state: Mutex::new(State::Answered(0)),
            };
            thread::scope(|scope| {
                scope.spawn(|| pass(&server, &client, || talk.answer_passes()));
                pass(&client, &server, || talk.message_passes());
            });
        });
        Self {
            from,
            to: port,
            reached,
        }
    }

    /// The URL of one of the server's databases, by this wire.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", self.to), &format!(":{}/", self.from))
    }

    /// Waits until the point is reached; `false` if the connection ends before.
    pub(crate) fn reached(&self) -> bool {
        self.reached.recv().is_ok()
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, passes: impl Fn() -> bool) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if passes() && to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

struct Talk {
    point: Point,
    reach: Sender<()>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// The next message of the client's is this.
    Answered(usize),
    /// The client is sending this one, or waits for the answer.
    Asked(usize),
    /// The point is reached.
    Cut,
}

impl Talk {
    fn message_passes(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let (State::Answered(at) | State::Asked(at)) = *state else {
            return false;
        };
        *state = State::Asked(at);
        let heard = self.point == Point::Heard(at);
        if heard || self.point == Point::Unheard(at) {
            *state = State::Cut;
            self.reach.send(()).unwrap();
            return heard;
        }
        true
    }

    fn answer_passes(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        match *state {
            State::Asked(at) if self.point == Point::Unanswered(at) => {
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
