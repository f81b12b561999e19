//! Counts the round trips of connections: how often a client sends after the server has sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy before a server that counts the round trips.
pub struct Turns {
    port: u16,
    counter: Arc<Counter>,
}

struct Counter {
    count: AtomicUsize,
    /// Whether the last bytes came from the client.
    asked: AtomicBool,
    /// How many round trips may begin.
    most: watch::Sender<usize>,
}

impl Turns {
    pub async fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let turns = Self {
            port: listener.local_addr().unwrap().port(),
            counter: Arc::new(Counter {
                count: AtomicUsize::new(0),
                asked: AtomicBool::new(false),
                most: watch::Sender::new(usize::MAX),
            }),
        };
        let counter = Arc::clone(&turns.counter);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, true, Arc::clone(&counter)));
                tokio::spawn(pass(from_server, to_client, false, Arc::clone(&counter)));
            }
        });
        turns
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn count(&self) -> usize {
        self.counter.count.load(Ordering::SeqCst)
    }

    /// Holds what clients send after `more` further round trips.
    pub fn hold_after(&self, more: usize) {
        self.counter.most.send_replace(self.count() + more);
    }

    /// Waits until a client's bytes are held.
    pub async fn held(&self) {
        while self.count() <= *self.counter.most.borrow() {
            tokio::task::yield_now().await;
        }
    }

    /// Passes on what is held.
    pub fn release(&self) {
        self.counter.most.send_replace(usize::MAX);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asks: bool, counter: Arc<Counter>) {
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !counter.asked.swap(asks, Ordering::SeqCst) && asks {
            let count = counter.count.fetch_add(1, Ordering::SeqCst) + 1;
            let mut most = counter.most.subscribe();
            most.wait_for(|most| count <= *most).await.unwrap();
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
}
