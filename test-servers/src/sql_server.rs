//! What the private database servers have in common.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::keeper::{Keeper, new_folder};

/// A database server on a free port, in a temporary folder, gone when dropped.
#[derive(Debug)]
pub(crate) struct SqlServer {
    port: u16,
    client: Vec<String>,
    databases: AtomicU32,
    keeper: Keeper,
}

/// The programs for a server in one folder and on one port, word by word.
pub(crate) struct Programs {
    /// Fills the folder.
    pub(crate) prepare: Vec<String>,
    pub(crate) serve: Vec<String>,
    /// Carries out the statement that is its last word, by a socket in the folder: behind the port
    /// may be another's server.
    pub(crate) client: Vec<String>,
}

impl SqlServer {
    pub(crate) fn start(
        kind: &str,
        programs: impl Fn(&Path, u16) -> Programs,
        args: &[&str],
    ) -> io::Result<Self> {
        loop {
            // Between here and the server's own bind the port may be taken by others.
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let folder = new_folder(kind)?;
            let programs = programs(&folder, port);
            // The shell comes first, because it is what removes the folder.
            let words = programs.serve.iter().map(String::as_str);
            let keeper = Keeper::unprivileged(folder, words.chain(args.iter().copied()))?;
            let prepared = keeper.run(&programs.prepare)?;
            let server = Self {
                port,
                client: programs.client,
                databases: AtomicU32::new(0),
                keeper,
            };
            if !prepared {
                return Err(server.says("cannot prepare its folder"));
            }
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                launched => return launched.map(|()| server),
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The name of a new database, made by the statement that is given for it.
    pub(crate) fn database(&self, create: impl Fn(&str) -> String) -> io::Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("test_{number}");
        self.execute(&create(&name))?;
        Ok(name)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.keeper.kill()
    }

    pub(crate) fn restart(&self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    pub(crate) fn pause(&self) -> io::Result<()> {
        self.keeper.pause()
    }

    pub(crate) fn resume(&self) -> io::Result<()> {
        self.keeper.resume()
    }

    fn launch(&self) -> io::Result<()> {
        self.keeper.start()?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.execute("SELECT 1").is_err() {
            if !self.keeper.runs()? {
                let log = self.keeper.log();
                if log.contains("Address already in use") {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                // A process of the one before, killed, is still on its way out.
                let waits = log.contains("shared memory block");
                if !waits || Instant::now() > deadline {
                    return Err(self.says("does not start"));
                }
                self.keeper.start()?;
            }
            if Instant::now() > deadline {
                return Err(self.says("does not answer"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn execute(&self, statement: &str) -> io::Result<()> {
        let output = Command::new(&self.client[0])
            .args(&self.client[1..])
            .arg(statement)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }

    fn says(&self, what: &str) -> io::Error {
        let log = self.keeper.log();
        io::Error::other(format!("the server {what}; its log says: {log}"))
    }
}
