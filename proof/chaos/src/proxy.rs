//! A proxy that drops replies, delays requests, and cuts both in the middle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::history::{History, HistoryEvent};

/// Forwards connections from its own port to a server, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    process: Arc<AtomicU32>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for the server at `port`.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub async fn start(port: u16, mut random: StdRng, history: Arc<History>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let own = listener.local_addr()?.port();
        let process = Arc::<AtomicU32>::default();
        let connecting = Arc::clone(&process);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let link = Link {
                    process: connecting.load(Ordering::Relaxed),
                    history: Arc::clone(&history),
                    random: StdRng::from_rng(&mut random),
                };
                tokio::spawn(link.pass(client, port));
            }
        });
        Ok(Self {
            port: own,
            process,
            accepting,
        })
    }

    /// The address for `process`. From now on the proxy attributes new connections to this process.
    pub fn address(&self, process: u32) -> String {
        self.process.store(process, Ordering::Relaxed);
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection. The bytes of one read are forwarded or dropped as a whole.
struct Link {
    process: u32,
    history: Arc<History>,
    random: StdRng,
}

/// The first pieces are the handshake of the client. They get no faults.
const HANDSHAKE: usize = 3;
/// One of so many pieces gets a fault.
const SELDOM: u32 = 150;

impl Link {
    async fn pass(mut self, client: TcpStream, port: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
            return;
        };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, server_faults) = server.into_split();
        let (cut, is_cut) = watch::channel(());
        let replies = Self {
            process: self.process,
            history: Arc::clone(&self.history),
            random: StdRng::from_rng(&mut self.random),
        };
        tokio::spawn(replies.replies(from_server, to_client, is_cut));
        self.requests(from_client, server_faults, cut).await;
    }

    /// Forwards requests. Dropping `cut` closes the side of the client, but requests that were read are still forwarded.
    async fn requests(
        mut self,
        mut client: OwnedReadHalf,
        mut server: OwnedWriteHalf,
        cut: watch::Sender<()>,
    ) {
        let mut cut = Some(cut);
        let mut buffer = vec![0; 65536];
        for piece in 0.. {
            let Ok(length @ 1..) = client.read(&mut buffer).await else {
                break;
            };
            if piece > HANDSHAKE && self.random.random_ratio(1, SELDOM) {
                let delay = Duration::from_millis(self.random.random_range(20..900));
                if self.random.random() {
                    // The client sees a broken connection, and the request arrives later.
                    cut = None;
                }
                if cut.is_some() && length > 1 && self.random.random() {
                    self.history.note(HistoryEvent::RequestCut);
                    let part = self.random.random_range(1..length);
                    let _ = server.write_all(&buffer[..part]).await;
                    break;
                }
                sleep(delay).await;
                let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
                self.history
                    .note(HistoryEvent::Delayed(self.process, micros));
            }
            if server.write_all(&buffer[..length]).await.is_err() || cut.is_none() {
                break;
            }
        }
        // The server still reads what was sent before the end of the connection.
        let _ = server.shutdown().await;
    }

    async fn replies(
        mut self,
        mut server: OwnedReadHalf,
        mut client: OwnedWriteHalf,
        mut cut: watch::Receiver<()>,
    ) {
        let mut buffer = vec![0; 65536];
        for piece in 0.. {
            let length = tokio::select! {
                read = server.read(&mut buffer) => match read {
                    Ok(length @ 1..) => length,
                    _ => break,
                },
                _ = cut.changed() => break,
            };
            if piece > HANDSHAKE && self.random.random_ratio(1, SELDOM) {
                if length < 2 || self.random.random() {
                    self.history.note(HistoryEvent::ReplyDropped);
                    break;
                }
                self.history.note(HistoryEvent::ReplyCut);
                let part = self.random.random_range(1..length);
                let _ = client.write_all(&buffer[..part]).await;
                if self.random.random() {
                    // The client gets a reset instead of an end.
                    let _ = client.as_ref().set_zero_linger();
                }
                break;
            }
            if client.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
        let _ = client.shutdown().await;
    }
}
