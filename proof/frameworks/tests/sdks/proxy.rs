//! A proxy that loses or cuts replies when a test asks for it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

/// A proxy. The service closes each connection after one response, so a connection has one reply.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    service: SocketAddr,
    faults: Arc<Faults>,
}

/// How many of the next replies have which fault.
#[derive(Debug, Default)]
struct Faults {
    lost: AtomicU32,
    cut: AtomicU32,
}

/// What happens to a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reply {
    Whole,
    /// The client gets nothing.
    Lost,
    /// The client gets all but the end of the body.
    Cut,
}

impl Proxy {
    pub(crate) fn new(service: SocketAddr) -> Self {
        Self {
            service,
            faults: Arc::default(),
        }
    }

    /// Loses the next `lost` replies, and cuts the next `cut` replies after them. Returns how many earlier faults did not happen yet.
    pub(crate) fn set_faults(&self, lost: u32, cut: u32) -> u32 {
        let Faults {
            lost: before_lost,
            cut: before_cut,
        } = &*self.faults;
        before_lost.swap(lost, Ordering::SeqCst) + before_cut.swap(cut, Ordering::SeqCst)
    }

    pub(crate) async fn serve(self, listener: TcpListener) {
        while let Ok((client, _)) = listener.accept().await {
            let proxy = self.clone();
            tokio::spawn(async move { proxy.forward(client).await });
        }
    }

    async fn forward(self, client: TcpStream) -> io::Result<()> {
        let service = TcpStream::connect(self.service).await?;
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_service, mut to_service) = service.into_split();
        let requests = tokio::spawn(async move { copy(&mut from_client, &mut to_service).await });
        let mut reply = Vec::new();
        from_service.read_to_end(&mut reply).await?;
        let sent = match self.faults.next() {
            Reply::Whole => reply.len(),
            Reply::Lost => 0,
            Reply::Cut => reply.len().saturating_sub(10),
        };
        to_client.write_all(&reply[..sent]).await?;
        to_client.shutdown().await?;
        requests.abort();
        Ok(())
    }
}

impl Faults {
    fn next(&self) -> Reply {
        let takes = |faults: &AtomicU32| {
            let one_less = |count: u32| count.checked_sub(1);
            let before = faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            before.is_ok()
        };
        if takes(&self.lost) {
            Reply::Lost
        } else if takes(&self.cut) {
            Reply::Cut
        } else {
            Reply::Whole
        }
    }
}
