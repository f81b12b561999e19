//! A Redis server of the test's own.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use super::resp;
use super::tls::Certificates;
use crate::keeper::{Keeper, new_folder};
use crate::shared::Shared;

/// A private `redis-server` on a free port, in a temporary folder, gone when dropped.
///
/// It is gone, too, when the process ends without running destructors: a shell that watches the
/// process stops the server and removes the folder. Nothing is persisted unless told by arguments.
/// All methods block until done.
///
/// `REDIS_SERVER` in the environment names another program, such as `valkey-server`.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    certificates: Option<Certificates>,
    keeper: Keeper,
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
    /// Those of [`start`](Self::start); a server that exits says why in the text.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        Self::start_set_up(|_| Ok(String::new()), &args)
    }

    /// Starts a server that speaks TLS only, with [`certificates`](Self::certificates) of its own.
    ///
    /// It takes clients without a certificate, too; with the argument `--tls-auth-clients yes` of
    /// [`start_tls_with`](Self::start_tls_with) it does not.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start), and if `openssl` is not installed.
    pub fn start_tls() -> io::Result<Self> {
        Self::start_tls_with([])
    }

    /// [`start_tls`](Self::start_tls) with arguments.
    ///
    /// # Errors
    ///
    /// Those of [`start_tls`](Self::start_tls); a server that exits says why in the text.
    pub fn start_tls_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let set_up = |seat: &Seat<'_>| Certificates::make(seat.folder, seat.port);
        let mut server = Self::start_set_up(set_up, &args)?;
        server.certificates = Some(Certificates::read(server.keeper.folder())?);
        Ok(server)
    }

    /// Starts a server whose configuration ends with the lines that `set_up` gives for its place.
    pub(super) fn start_set_up(
        set_up: impl Fn(&Seat<'_>) -> io::Result<String>,
        args: &[&str],
    ) -> io::Result<Self> {
        let program = program()?;
        loop {
            // Between here and the server's own bind the ports may be taken by others.
            let (port, bus_port) = free_ports()?;
            let folder = new_folder("redis")?;
            let config = folder.join("redis.conf");
            // The shell comes first, because it is what removes the folder.
            let command = [program.as_ref(), config.as_os_str()];
            let args = args.iter().map(AsRef::as_ref);
            let keeper = Keeper::new(folder.clone(), command.into_iter().chain(args))?;
            let seat = Seat {
                folder: &folder,
                port,
                bus_port,
            };
            let lines = set_up(&seat)?;
            let folder_name = folder.display();
            fs::write(
                config,
                format!(
                    "port {port}\nbind 127.0.0.1\ndir \"{folder_name}\"\n\
                     unixsocket \"{folder_name}/{SOCKET}\"\nsave \"\"\nappendonly no\n{lines}"
                ),
            )?;
            let server = Self {
                port,
                certificates: None,
                keeper,
            };
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                launched => return launched.map(|()| server),
            }
        }
    }

    /// The one server that the tests of this process share; started by the first that asks.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<RedisServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// Where it is, such as `redis://127.0.0.1:41234`; `rediss://` of a server that speaks TLS.
    pub fn url(&self) -> String {
        let scheme = match self.certificates {
            Some(_) => "rediss",
            None => "redis",
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Where it is on this machine only, such as `redis+unix:///tmp/redis-42-8c6976e5/redis.sock`.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a client needs to trust it, and to be trusted; only of a server that speaks TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Kills it with SIGKILL, as a power failure would.
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.keeper.kill()
    }

    /// Kills it and starts it again, on the same port and in the same folder.
    ///
    /// # Errors
    ///
    /// If it does not answer within ten seconds, or another program took the port.
    pub fn restart(&self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    /// Stops it in its tracks with SIGSTOP: connections stay, answers do not come.
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn pause(&self) -> io::Result<()> {
        self.keeper.pause()
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn resume(&self) -> io::Result<()> {
        self.keeper.resume()
    }

    /// What it answers to a command: see [`resp::ask`].
    pub(super) fn ask<S: AsRef<str>>(&self, command: &[S]) -> io::Result<Vec<String>> {
        resp::ask(&self.socket(), command)
    }

    /// What it answers to a command that is answered by one text.
    pub(super) fn ask_text(&self, command: &[&str]) -> io::Result<String> {
        Ok(self.ask(command)?.concat())
    }

    fn socket(&self) -> PathBuf {
        self.keeper.folder().join(SOCKET)
    }

    fn launch(&self) -> io::Result<()> {
        self.keeper.start()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.ask_text(&["PING"]) {
                Ok(_) => return Ok(()),
                Err(error) if error.to_string().starts_with("NOAUTH") => return Ok(()),
                Err(_) => {}
            }
            if self.keeper.log().contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let refuses = self.keeper.log().contains("FATAL CONFIG");
            if refuses {
                // The reason comes after these words.
                self.keeper.wait()?;
            }
            if refuses || Instant::now() > deadline {
                let log = self.keeper.log();
                let message = format!("the server does not answer; its log says: {log}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            sleep(Duration::from_millis(5));
        }
    }
}

const SOCKET: &str = "redis.sock";

/// Where a server is to be.
pub(super) struct Seat<'a> {
    pub(super) folder: &'a Path,
    pub(super) port: u16,
    /// For what the nodes of a cluster tell each other.
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

fn free_ports() -> io::Result<(u16, u16)> {
    let port = TcpListener::bind(("127.0.0.1", 0))?;
    let bus_port = TcpListener::bind(("127.0.0.1", 0))?;
    Ok((port.local_addr()?.port(), bus_port.local_addr()?.port()))
}
