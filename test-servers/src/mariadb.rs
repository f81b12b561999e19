//! A MariaDB server of the test's own.

use std::path::{Path, PathBuf};
use std::{env, io};

use crate::program::{find, path};
use crate::shared::Shared;
use crate::sql_server::{Programs, SqlServer};

/// A private MariaDB on a free port, in a temporary folder, gone when dropped.
///
/// It is gone, too, when the process ends without running destructors: a shell that watches the
/// process stops the server and removes the folder. A process of root runs it as `nobody`.
/// All methods block until done.
///
/// A commit does not wait for the disk (`innodb_flush_log_at_trx_commit=2`): a killed server loses
/// nothing by that, a power failure would. It takes up to 300 connections, and texts are
/// `utf8mb4_general_ci` unless told.
///
/// The programs are looked for on `PATH` and where packages put them; `MARIADBD` in the environment
/// names another `mariadbd`.
#[derive(Debug)]
pub struct MariaDbServer(SqlServer);

impl MariaDbServer {
    /// Makes a server and waits until it answers: about a second.
    ///
    /// # Errors
    ///
    /// If the programs are not installed, or the server does not answer within half a minute.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["--innodb-lock-wait-timeout=1"]`, and waits until
    /// it answers.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start); a server that exits says why in the text.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let found = Found::look()?;
        let programs = |folder: &Path, port| found.programs(folder, port);
        SqlServer::start("mariadb", programs, &args).map(Self)
    }

    /// The one server that the tests of this process share; started by the first that asks.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<MariaDbServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// Makes an empty database and tells where it is, such as
    /// `mysql://root@127.0.0.1:41234/test_7`. It ends with the server.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn database(&self) -> io::Result<String> {
        let name = self.0.database(|name| format!("CREATE DATABASE {name}"))?;
        Ok(format!("{}/{name}", self.url()))
    }

    /// Where it is, without a database, such as `mysql://root@127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.0.port())
    }

    /// The temporary folder that it lives in.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Kills it with SIGKILL. What was committed is there after [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.0.kill()
    }

    /// Kills it and starts it again, on the same port and in the same folder.
    ///
    /// # Errors
    ///
    /// If it does not answer within half a minute, or another program took the port.
    pub fn restart(&self) -> io::Result<()> {
        self.0.restart()
    }

    /// Stops it in its tracks with SIGSTOP: connections stay, answers do not come.
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn pause(&self) -> io::Result<()> {
        self.0.pause()
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn resume(&self) -> io::Result<()> {
        self.0.resume()
    }
}

/// Where its programs are.
struct Found {
    install: PathBuf,
    server: PathBuf,
    client: PathBuf,
}

impl Found {
    fn look() -> io::Result<Self> {
        let server = env::var_os("MARIADBD").map_or_else(|| "mariadbd".into(), PathBuf::from);
        let mut folders = path();
        // The programs belong together.
        let named = server.parent().filter(|folder| folder.is_absolute());
        folders.splice(..0, named.map(Path::to_owned));
        // Debian's `sbin` is not on everybody's path, nor is brew's `opt`.
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
            // Otherwise settings of this machine are read.
            let args = ["--no-defaults"].iter().chain(args);
            [program]
                .into_iter()
                .chain(args.map(ToString::to_string))
                .collect()
        };
        let data = format!("--datadir={folder}/data");
        // A server that starts removes what others have in a common folder.
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
            // Of what the kernel gives of it, many servers at once want too much.
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
