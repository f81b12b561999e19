//! A MariaDB server for tests.

use std::path::{Path, PathBuf};
use std::{env, io};

use crate::program::{find, path};
use crate::shared::Shared;
use crate::sql_server::{Programs, SqlServer, forward_to_sql_server};

/// A private MariaDB on a free port, in a temporary folder, stopped and removed when dropped.
///
/// A shell that watches this process stops the server and removes the folder even if the process
/// ends without running destructors. If this process runs as root, the server runs as `nobody`.
/// All methods block until they are done.
///
/// A commit does not wait for the disk (`innodb_flush_log_at_trx_commit=2`): a killed server loses
/// nothing, a power failure would lose commits. The server accepts up to 300 connections, and the
/// default collation is `utf8mb4_general_ci`.
///
/// The programs are searched on `PATH` and in the usual folders of packages. The environment variable `MARIADBD` names another
/// `mariadbd`.
#[derive(Debug)]
pub struct MariaDbServer(SqlServer);

forward_to_sql_server!(MariaDbServer);

impl MariaDbServer {
    /// Starts a server and waits until it answers, which takes about a second.
    ///
    /// # Errors
    ///
    /// If the programs are not installed, or the server does not answer within two minutes.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["--innodb-lock-wait-timeout=1"]`, and waits until
    /// it answers.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If the server exits, the error contains its log.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let installation = Installation::find()?;
        let programs = |folder: &Path, port| installation.programs(folder, port);
        SqlServer::start("mariadb", programs, &args).map(Self)
    }

    /// The server that all tests of this process share. The first caller starts it.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<MariaDbServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// Creates an empty database and returns its URL, such as
    /// `mysql://root@127.0.0.1:41234/test_7`. It lives as long as the server.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn database(&self) -> io::Result<String> {
        let name = self.0.database(|name| format!("CREATE DATABASE {name}"))?;
        Ok(format!("{}/{name}", self.url()))
    }

    /// The URL of the server without a database, such as `mysql://root@127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.0.port())
    }
}

/// The paths of MariaDB's programs.
struct Installation {
    install: PathBuf,
    server: PathBuf,
    client: PathBuf,
}

impl Installation {
    fn find() -> io::Result<Self> {
        let server = env::var_os("MARIADBD").map_or_else(|| "mariadbd".into(), PathBuf::from);
        let mut folders = path();
        // All programs must be of the same installation.
        let named = server.parent().filter(|folder| folder.is_absolute());
        folders.splice(..0, named.map(Path::to_owned));
        // Debian's `sbin` and brew's `opt` are often not on `PATH`.
        let more = [
            "/usr/sbin",
            "/opt/homebrew/opt/mariadb/bin",
            "/usr/local/opt/mariadb/bin",
        ];
        folders.extend(more.map(PathBuf::from));
        let find = |program: &Path| {
            find(program, &folders).ok_or_else(|| {
                let program = program.display();
                let message = format!(
                    "cannot find `{program}`; install it with `apt-get install \
                     mariadb-server-core mariadb-client-core` or `brew install mariadb`, or name \
                     another server in MARIADBD"
                );
                io::Error::new(io::ErrorKind::NotFound, message)
            })
        };
        Ok(Self {
            install: find("mariadb-install-db".as_ref())?,
            server: find(&server)?,
            client: find("mariadb".as_ref())?,
        })
    }

    fn programs(&self, folder: &Path, port: u16) -> Programs {
        let folder = folder.display();
        let socket = format!("--socket={folder}/mariadb.sock");
        let command = |program: &Path, args: &[&str]| {
            let program = program.display().to_string();
            // Otherwise the programs read the settings of this machine.
            let args = ["--no-defaults"].iter().chain(args);
            [program]
                .into_iter()
                .chain(args.map(ToString::to_string))
                .collect()
        };
        let data = format!("--datadir={folder}/data");
        // A server that starts removes the files of other servers in a shared folder.
        let temporary = format!("--tmpdir={folder}");
        let prepare: &[&str] = &[
            &data,
            &temporary,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ];
        let serve: &[&str] = &[
            &data,
            &socket,
            &format!("--port={port}"),
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            &temporary,
            &format!("--pid-file={folder}/pid"),
            "--max-connections=300",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_general_ci",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=64M",
            // Many servers at once exceed the kernel's limit on asynchronous I/O.
            "--innodb-use-native-aio=0",
            "--key-buffer-size=1M",
            "--aria-pagecache-buffer-size=8M",
        ];
        Programs {
            prepare: command(&self.install, prepare),
            serve: command(&self.server, serve),
            client: command(&self.client, &[&socket, "--user=root", "--execute"]),
        }
    }
}
