//! A network with a delay, between a client and a server on this machine.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The delay of each direction. A round trip takes twice as long, and a little more, because a sleep of a thread ends late.
const DELAY: Duration = Duration::from_micros(500);

/// Starts a relay to this port of this machine. Returns the port of the relay, which runs until the process ends.
pub(crate) fn start(server: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("a server");
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("a socket of TCP");
            }
            pass_on(clone(&client), clone(&server));
            pass_on(server, client);
        }
    });
    port
}

fn clone(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("a few sockets")
}

/// Writes what is read from one socket to the other, each message after the delay. Later messages do not wait for earlier ones.
fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let (sender, messages) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let due = Instant::now() + DELAY;
            if sender.send((due, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, message) in messages {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&message).is_err() {
                break;
            }
        }
        // The other side may have closed the connection already.
        let _ = to.shutdown(Shutdown::Both);
    });
}
