//! A PostgreSQL server of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::program::{find, path};
use crate::shared::Shared;
use crate::sql_server::{Programs, SqlServer};

/// A private PostgreSQL on a free port, in a temporary folder, gone when dropped.
///
/// It is gone, too, when the process ends without running destructors: a shell that watches the
/// process stops the server and removes the folder. A process of root runs it as `nobody`.
/// All methods block until done.
///
/// Nothing waits for the disk (`fsync=off`): a killed server loses nothing by that, a power failure
/// would. The rest is as `initdb` makes it, in UTF-8 and the locale `C`, for up to 300 connections.
///
/// The programs are looked for on `PATH` and where packages put them, the newest version first;
/// `POSTGRES_BIN` in the environment names another folder.
#[derive(Debug)]
pub struct PostgresServer(SqlServer);

impl PostgresServer {
    /// Makes a server and waits until it answers: about a second.
    ///
    /// # Errors
    ///
    /// If the programs are not installed, or the server does not answer within half a minute.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["-c", "lock_timeout=1s"]`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start); a server that exits says why in the text.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let bin = bin()?;
        let programs = |folder: &Path, port| programs(&bin, folder, port);
        SqlServer::start("postgres", programs, &args).map(Self)
    }

    /// The one server that the tests of this process share; started by the first that asks.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<PostgresServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// Makes an empty database and tells where it is, such as
    /// `postgres://postgres@127.0.0.1:41234/test_7`. It ends with the server.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn database(&self) -> io::Result<String> {
        // Unlike the usual template, nobody can be connected to this one.
        let create = |name: &str| format!("CREATE DATABASE {name} TEMPLATE template0");
        Ok(self.url_of(&self.0.database(create)?))
    }

    /// Where its first database is, such as `postgres://postgres@127.0.0.1:41234/postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The temporary folder that it lives in.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Kills it with SIGKILL, and the processes of its connections, too. What was committed is there
    /// after [`restart`](Self::restart).
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

    /// Stops it in its tracks with SIGSTOP, and the processes of its connections, too: they stay,
    /// answers do not come.
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

    fn url_of(&self, database: &str) -> String {
        let port = self.0.port();
        format!("postgres://postgres@127.0.0.1:{port}/{database}")
    }
}

fn programs(bin: &Path, folder: &Path, port: u16) -> Programs {
    let program = |name: &str| bin.join(name).display().to_string();
    let folder = folder.display();
    let data = format!("{folder}/data");

    let mut prepare = vec![program("initdb"), "-D".to_owned(), data.clone()];
    let locale = ["-E", "UTF8", "--locale=C"];
    let access = ["-A", "trust", "-U", "postgres", "--no-sync"];
    prepare.extend(locale.into_iter().chain(access).map(str::to_owned));

    let mut serve = vec![program("postgres"), "-D".to_owned(), data];
    let settings = [
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("unix_socket_directories={folder}"),
        "max_connections=300".to_owned(),
        "fsync=off".to_owned(),
        // In the folder; otherwise a killed server leaves it elsewhere.
        "dynamic_shared_memory_type=mmap".to_owned(),
    ];
    serve.extend(
        settings
            .into_iter()
            .flat_map(|setting| ["-c".to_owned(), setting]),
    );

    let mut client = vec![program("psql"), "-h".to_owned(), folder.to_string()];
    client.extend(["-p".to_owned(), port.to_string()]);
    client.extend(["-U", "postgres", "-X", "-q", "-c"].map(str::to_owned));

    Programs {
        prepare,
        serve,
        client,
    }
}

/// The folder of the programs.
fn bin() -> io::Result<PathBuf> {
    let folders = match env::var_os("POSTGRES_BIN") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => usual_folders(),
    };
    let whole = |folder: &PathBuf| {
        let folder = std::slice::from_ref(folder);
        ["initdb", "postgres", "psql"]
            .iter()
            .all(|program| find(program, folder).is_some())
    };
    folders.into_iter().find(whole).ok_or_else(|| {
        let message = "cannot find `initdb`, `postgres` and `psql` in one folder; install them with \
                       `apt-get install postgresql` or `brew install postgresql`, or name their \
                       folder in POSTGRES_BIN";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

fn usual_folders() -> Vec<PathBuf> {
    let mut folders = path();
    // Debian's, Red Hat's, brew's on both kinds of Mac, and that of the installer.
    let parents = [
        "/usr/lib/postgresql",
        "/usr",
        "/opt/homebrew/opt",
        "/usr/local/opt",
        "/Library/PostgreSQL",
    ];
    for parent in parents {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let mut versions: Vec<_> = entries.filter_map(|entry| version(entry.path())).collect();
        versions.sort_unstable();
        folders.extend(
            versions
                .into_iter()
                .rev()
                .map(|(_, folder)| folder.join("bin")),
        );
    }
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        folders.push(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    folders
}

/// The version of what is in such a folder as `15`, `pgsql-15` or `postgresql@15`.
fn version(folder: PathBuf) -> Option<(u32, PathBuf)> {
    let name = folder.file_name()?.to_str()?;
    let version = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let version = version.split('.').next()?.parse().ok()?;
    Some((version, folder))
}
