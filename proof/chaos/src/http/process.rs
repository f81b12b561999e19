//! The processes of services, and what this process needs for its clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::service::Service;
use crate::child;

/// Raises the soft limit of open files: each client is a socket here and in a service. Child processes inherit the limit.
pub(super) fn allow_many_sockets() -> io::Result<()> {
    const ENOUGH: u64 = 8192;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < ENOUGH) {
        let most = limit.maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(())
}

/// A service process. It serves as long as its standard input is open.
#[derive(Debug)]
pub(super) struct ServiceProcess {
    pub(super) process: u32,
    pub(super) address: SocketAddr,
    child: Child,
}

impl ServiceProcess {
    /// Starts a service and waits until it accepts connections.
    pub(super) async fn start(
        program: &Path,
        service: &Service,
        folder: &Path,
    ) -> io::Result<Self> {
        let child = child::start(
            program,
            "service",
            service.args(),
            folder,
            None,
            Stdio::piped(),
        )?;
        let mut started = Self {
            process: service.process,
            address: (Ipv4Addr::LOCALHOST, service.port).into(),
            child,
        };
        let deadline = Instant::now() + Duration::from_mins(5);
        while TcpStream::connect(started.address).await.is_err() {
            let ended = started.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let stderr = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
                let message = format!("a service did not start ({ended:?}): {stderr}");
                return Err(io::Error::other(message));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(started)
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Closes its standard input, and waits until the service has ended by itself.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_mins(5);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                let message = format!("service {} does not end", self.process);
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.kill();
    }
}
