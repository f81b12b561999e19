//! A proxy of TCP that harms connections. A client that keeps no connection open has one connection for each try.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::net::{TcpListener, TcpStream};

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It closes before the server gets the request.
    LoseRequest,
    /// It closes after the server has answered.
    LoseReply,
    /// It closes in the head of the answer.
    CutHead,
    /// It closes before the last byte of the answer.
    CutBody,
    /// The answer stays in the proxy.
    Silence,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy before these servers, which take turns. So do the faults.
    pub(crate) async fn start(servers: Vec<SocketAddr>, faults: Vec<Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::SeqCst);
                let server = servers[number % servers.len()];
                let fault = faults[number % faults.len()];
                // A broken connection is what the proxy is for.
                tokio::spawn(async move { forward(client, server, fault).await.ok() });
            }
        });
        Self {
            address,
            connections,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, fault: Fault) -> io::Result<()> {
    if fault == Fault::LoseRequest {
        client.read_exact(&mut [0; 64]).await?;
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    if fault == Fault::None {
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let request = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let reply = whole_reply(&mut from_server).await?;
    match fault {
        Fault::CutHead => to_client.write_all(&reply[..12]).await?,
        Fault::CutBody => to_client.write_all(&reply[..reply.len() - 1]).await?,
        // Until the client closes the connection.
        Fault::Silence => {
            request.await??;
            return Ok(());
        }
        Fault::None | Fault::LoseRequest | Fault::LoseReply => {}
    }
    to_client.shutdown().await?;
    request.abort();
    copy(&mut from_server, &mut sink()).await?;
    Ok(())
}

/// The head and the body of an answer that has a `Content-Length`.
async fn whole_reply(from_server: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut reply = Vec::new();
    loop {
        if from_server.read_buf(&mut reply).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&reply).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next());
        let length: usize = length.expect("a length").parse().unwrap();
        if body.len() >= length {
            return Ok(reply);
        }
    }
}
