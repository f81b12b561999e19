//! A Redis server for tests.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use super::resp;
use super::tls::Certificates;
use crate::ports::Port;
use crate::shared::Shared;
use crate::supervisor::{Supervisor, new_folder};

/// A private `redis-server` on a free port, in a temporary folder, stopped and removed when dropped.
///
/// A shell that watches this process stops the server and removes the folder even if the process
/// ends without running destructors. Without other arguments the server persists nothing.
/// All methods block until they are done.
///
/// The environment variable `REDIS_SERVER` names another program, such as `valkey-server`.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    /// For the messages between the nodes of a cluster.
    _bus_port: Port,
    certificates: Option<Certificates>,
    supervisor: Supervisor,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// If the program is not installed, or the server does not answer within ten seconds.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["--maxmemory", "3mb"]`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If the server exits, the error contains its log.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        Self::start_set_up(|_| Ok(String::new()), &args)
    }

    /// Starts a server that speaks TLS only, with new [`certificates`](Self::certificates).
    ///
    /// It also accepts clients without a certificate. The argument `--tls-auth-clients yes` of
    /// [`start_tls_with`](Self::start_tls_with) makes it refuse them.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start), and if `openssl` is not installed.
    pub fn start_tls() -> io::Result<Self> {
        Self::start_tls_with([])
    }

    /// Like [`start_tls`](Self::start_tls), with arguments.
    ///
    /// # Errors
    ///
    /// Like [`start_tls`](Self::start_tls). If the server exits, the error contains its log.
    pub fn start_tls_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let set_up = |location: &Location<'_>| Certificates::make(location.folder, location.port);
        let mut server = Self::start_set_up(set_up, &args)?;
        server.certificates = Some(Certificates::read(server.supervisor.folder())?);
        Ok(server)
    }

    /// Starts a server. Its configuration ends with the lines that `set_up` returns for its location.
    pub(super) fn start_set_up(
        set_up: impl Fn(&Location<'_>) -> io::Result<String>,
        args: &[&str],
    ) -> io::Result<Self> {
        let program = program()?;
        loop {
            // Another process may take the ports before the server binds them.
            let (reserved, reserved_bus) = (Port::free()?, Port::free()?);
            let (port, bus_port) = (reserved.number(), reserved_bus.number());
            let folder = new_folder("redis")?;
            let config = folder.join("redis.conf");
            // The shell starts first, because it removes the folder.
            let command = [program.as_ref(), config.as_os_str()];
            let args = args.iter().map(AsRef::as_ref);
            let supervisor = Supervisor::new(folder.clone(), command.into_iter().chain(args))?;
            let location = Location {
                folder: &folder,
                port,
                bus_port,
            };
            let lines = set_up(&location)?;
            let folder_name = folder.display();
            fs::write(
                config,
                format!(
                    "port {port}\nbind 127.0.0.1\ndir \"{folder_name}\"\n\
                     unixsocket \"{folder_name}/{SOCKET}\"\nsave \"\"\nappendonly no\n{lines}"
                ),
            )?;
            let server = Self {
                port: reserved,
                _bus_port: reserved_bus,
                certificates: None,
                supervisor,
            };
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                launched => return launched.map(|()| server),
            }
        }
    }

    /// The server that all tests of this process share. The first caller starts it.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<RedisServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// The URL of the server, such as `redis://127.0.0.1:41234`; `rediss://` if it speaks TLS.
    pub fn url(&self) -> String {
        let scheme = match self.certificates {
            Some(_) => "rediss",
            None => "redis",
        };
        format!("{scheme}://127.0.0.1:{}", self.port.number())
    }

    /// The URL of its Unix socket, such as `redis+unix:///tmp/redis-42-8c6976e5/redis.sock`.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The port of the server on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The certificates that a client needs; `None` if the server does not speak TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Kills the server with SIGKILL, as a power failure would.
    ///
    /// # Errors
    ///
    /// If the supervising shell has ended.
    pub fn kill(&self) -> io::Result<()> {
        self.supervisor.kill()
    }

    /// Kills the server and starts it again, on the same port and in the same folder.
    ///
    /// # Errors
    ///
    /// If it does not answer within two minutes, or another program took the port.
    pub fn restart(&self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    /// Freezes the server with SIGSTOP: connections stay open, but nothing answers.
    ///
    /// # Errors
    ///
    /// If the supervising shell has ended.
    pub fn pause(&self) -> io::Result<()> {
        self.supervisor.pause()
    }

    /// Continues the server after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// If the supervising shell has ended.
    pub fn resume(&self) -> io::Result<()> {
        self.supervisor.resume()
    }

    /// Sends a command to the server: see [`resp::ask`].
    pub(super) fn ask<S: AsRef<str>>(&self, command: &[S]) -> io::Result<Vec<String>> {
        resp::ask(&self.socket(), command)
    }

    /// Sends a command whose answer is one text.
    pub(super) fn ask_text(&self, command: &[&str]) -> io::Result<String> {
        Ok(self.ask(command)?.concat())
    }

    fn socket(&self) -> PathBuf {
        self.supervisor.folder().join(SOCKET)
    }

    fn launch(&self) -> io::Result<()> {
        self.supervisor.start()?;
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            match self.ask_text(&["PING"]) {
                Ok(_) => return Ok(()),
                Err(error) if error.to_string().starts_with("NOAUTH") => return Ok(()),
                Err(_) => {}
            }
            if self.supervisor.log().contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let refuses = self.supervisor.log().contains("FATAL CONFIG");
            if refuses {
                // The server logs the reason after these words.
                self.supervisor.wait()?;
            }
            if refuses || Instant::now() > deadline {
                let log = self.supervisor.log();
                let message = format!("the server does not answer; its log: {log}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            sleep(Duration::from_millis(5));
        }
    }
}

const SOCKET: &str = "redis.sock";

/// The folder and the ports that a new server gets.
pub(super) struct Location<'a> {
    pub(super) folder: &'a Path,
    pub(super) port: u16,
    /// The nodes of a cluster exchange messages on this port.
    pub(super) bus_port: u16,
}

fn program() -> io::Result<String> {
    let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let found = Command::new(&program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    found.map(|_| program.clone()).map_err(|error| {
        let message = format!(
            "cannot run `{program}`: {error}; install it with `apt-get install redis-server` or \
             `brew install redis`, or name another one in REDIS_SERVER"
        );
        io::Error::new(error.kind(), message)
    })
}
