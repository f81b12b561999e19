//! A PostgreSQL server for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::program::{find, path};
use crate::shared::Shared;
use crate::sql_server::{Programs, SqlServer, forward_to_sql_server};

/// A private PostgreSQL on a free port, in a temporary folder, stopped and removed when dropped.
///
/// A shell that watches this process stops the server and removes the folder even if the process
/// ends without running destructors. If this process runs as root, the server runs as `nobody`.
/// All methods block until they are done.
///
/// Nothing waits for the disk (`fsync=off`): a killed server loses nothing, a power failure would lose
/// commits. The rest is the default of `initdb` with UTF-8, the locale `C` and up to 300 connections.
///
/// The programs are searched on `PATH` and in the usual folders of packages, the newest version first.
/// The environment variable `POSTGRES_BIN` names another folder.
#[derive(Debug)]
pub struct PostgresServer(SqlServer);

forward_to_sql_server!(PostgresServer);

impl PostgresServer {
    /// Starts a server and waits until it answers, which takes about a second.
    ///
    /// # Errors
    ///
    /// If the programs are not installed, or the server does not answer within two minutes.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["-c", "lock_timeout=1s"]`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If the server exits, the error contains its log.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let bin = bin()?;
        let programs = |folder: &Path, port| programs(&bin, folder, port);
        SqlServer::start("postgres", programs, &args).map(Self)
    }

    /// The server that all tests of this process share. The first caller starts it.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<PostgresServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// Creates an empty database and returns its URL, such as
    /// `postgres://postgres@127.0.0.1:41234/test_7`. It lives as long as the server.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn database(&self) -> io::Result<String> {
        // No connection can be open to `template0`, unlike to the usual template.
        let create = |name: &str| format!("CREATE DATABASE {name} TEMPLATE template0");
        Ok(self.url_of(&self.0.database(create)?))
    }

    /// The URL of its first database, such as `postgres://postgres@127.0.0.1:41234/postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
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
        // Memory-mapped files lie in the folder. A killed server would leave other kinds behind.
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

/// Finds the folder of the programs.
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
    // The folders of Debian, Red Hat, brew (on both kinds of Mac) and the installer.
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

/// The major version in the name of a folder, such as `15`, `pgsql-15` or `postgresql@15`.
fn version(folder: PathBuf) -> Option<(u32, PathBuf)> {
    let name = folder.file_name()?.to_str()?;
    let version = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let version = version.split('.').next()?.parse().ok()?;
    Some((version, folder))
}
