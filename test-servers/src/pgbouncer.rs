//! A PgBouncer for tests.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::ports::Port;
use crate::postgres::PostgresServer;
use crate::program::{find, path};
use crate::supervisor::{Supervisor, new_folder};

/// A private PgBouncer on a free port in front of a [`PostgresServer`], stopped when dropped.
///
/// If this process runs as root, the pooler runs as `nobody`.
#[derive(Debug)]
pub struct PgBouncer {
    port: Port,
    server_port: u16,
    _supervisor: Supervisor,
}

impl PgBouncer {
    /// Starts a pooler with this `pool_mode` (`session` or `transaction`), and waits until it accepts connections. Each database
    /// has up to twenty connections.
    ///
    /// # Errors
    ///
    /// If the program is not installed, or does not accept connections within a minute.
    pub fn start(server: &PostgresServer, pool_mode: &str) -> io::Result<Self> {
        let program = program()?.display().to_string();
        let (reserved, server_port) = (Port::free()?, server.port());
        let port = reserved.number();
        let folder = new_folder("pgbouncer")?;
        let settings = folder.join("pgbouncer.ini");
        let users = folder.join("users");
        fs::write(&users, "\"postgres\" \"\"\n")?;
        let prepared = match Self::version()? {
            (1, ..21) => "",
            _ => "max_prepared_statements = 100\n",
        };
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {pool_mode}\n\
             ignore_startup_parameters = extra_float_digits\n{prepared}",
            users.display(),
        );
        fs::write(&settings, text)?;
        let supervisor =
            Supervisor::unprivileged(folder, [program, settings.display().to_string()])?;
        supervisor.start()?;
        let deadline = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline || !supervisor.is_running()? {
                let log = supervisor.log();
                return Err(io::Error::other(format!(
                    "the pooler does not answer; its log: {log}"
                )));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(Self {
            port: reserved,
            server_port,
            _supervisor: supervisor,
        })
    }

    /// The major and the minor version.
    ///
    /// # Errors
    ///
    /// If the program is not installed.
    pub fn version() -> io::Result<(u32, u32)> {
        let output = Command::new(program()?).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1).and_then(|version| {
            let (major, rest) = version.split_once('.')?;
            let minor = rest.split('.').next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        version.ok_or_else(|| io::Error::other(format!("not a version: {text}")))
    }

    /// The URL of a database of the server, through the pooler.
    pub fn url(&self, url: &str) -> String {
        let (server, own) = (
            format!(":{}/", self.server_port),
            format!(":{}/", self.port.number()),
        );
        url.replace(&server, &own)
    }
}

fn program() -> io::Result<PathBuf> {
    let mut folders = path();
    // Debian's `sbin` and brew's folders are often not on `PATH`.
    let more = ["/usr/sbin", "/opt/homebrew/bin", "/usr/local/bin"];
    folders.extend(more.map(PathBuf::from));
    find("pgbouncer", &folders).ok_or_else(|| {
        let message = "cannot find `pgbouncer`; install it with `apt-get install pgbouncer` or `brew install pgbouncer`";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}
