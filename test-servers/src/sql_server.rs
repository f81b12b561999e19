//! The code that the private database servers share.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::ports::Port;
use crate::supervisor::{Supervisor, new_folder};

/// A database server on a free port, in a temporary folder. Dropping it stops the server and removes the folder.
#[derive(Debug)]
pub(crate) struct SqlServer {
    port: Port,
    client: Vec<String>,
    databases: AtomicU32,
    supervisor: Supervisor,
}

/// The commands for a server in one folder and on one port, as lists of words.
pub(crate) struct Programs {
    /// Creates the data of a new server in the folder.
    pub(crate) prepare: Vec<String>,
    pub(crate) serve: Vec<String>,
    /// Executes the statement that is appended as its last word. It connects by a socket in the folder,
    /// because the server of another process may own the port.
    pub(crate) client: Vec<String>,
}

impl SqlServer {
    pub(crate) fn start(
        kind: &str,
        programs: impl Fn(&Path, u16) -> Programs,
        args: &[&str],
    ) -> io::Result<Self> {
        loop {
            // Another process may take the port before the server binds it.
            let port = Port::free()?;
            let folder = new_folder(kind)?;
            let programs = programs(&folder, port.number());
            // The shell starts first, because it removes the folder.
            let words = programs.serve.iter().map(String::as_str);
            let supervisor = Supervisor::unprivileged(folder, words.chain(args.iter().copied()))?;
            let prepared = supervisor.run(&programs.prepare)?;
            let server = Self {
                port,
                client: programs.client,
                databases: AtomicU32::new(0),
                supervisor,
            };
            if !prepared {
                return Err(server.failure("cannot prepare its folder"));
            }
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                launched => return launched.map(|()| server),
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Creates a database with the statement that `create` returns for its name. Returns the name.
    pub(crate) fn database(&self, create: impl Fn(&str) -> String) -> io::Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("test_{number}");
        self.execute(&create(&name))?;
        Ok(name)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.supervisor.kill()
    }

    pub(crate) fn restart(&self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    pub(crate) fn pause(&self) -> io::Result<()> {
        self.supervisor.pause()
    }

    pub(crate) fn resume(&self) -> io::Result<()> {
        self.supervisor.resume()
    }

    fn launch(&self) -> io::Result<()> {
        self.supervisor.start()?;
        let deadline = Instant::now() + Duration::from_mins(2);
        while self.execute("SELECT 1").is_err() {
            if !self.supervisor.is_running()? {
                let log = self.supervisor.log();
                if log.contains("Address already in use") {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                // A process of the killed server has not ended yet.
                let must_wait = log.contains("shared memory block");
                if !must_wait || Instant::now() > deadline {
                    return Err(self.failure("does not start"));
                }
                self.supervisor.start()?;
            }
            if Instant::now() > deadline {
                return Err(self.failure("does not answer"));
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

    fn failure(&self, what: &str) -> io::Error {
        let log = self.supervisor.log();
        io::Error::other(format!("the server {what}; its log: {log}"))
    }
}

/// Gives a public server the methods that only forward to its [`SqlServer`].
macro_rules! forward_to_sql_server {
    ($Server:ty) => {
        impl $Server {
            /// The temporary folder of the server.
            pub fn folder(&self) -> &std::path::Path {
                self.0.folder()
            }

            /// The port of the server on the loopback interface.
            pub fn port(&self) -> u16 {
                self.0.port()
            }

            /// Kills the server and the processes of its connections with SIGKILL. Committed data is still
            /// there after [`restart`](Self::restart).
            ///
            /// # Errors
            ///
            /// If the supervising shell has ended.
            pub fn kill(&self) -> std::io::Result<()> {
                self.0.kill()
            }

            /// Kills the server and starts it again, on the same port and in the same folder.
            ///
            /// # Errors
            ///
            /// If it does not answer within two minutes, or another program took the port.
            pub fn restart(&self) -> std::io::Result<()> {
                self.0.restart()
            }

            /// Freezes the server and the processes of its connections with SIGSTOP: connections stay
            /// open, but nothing answers.
            ///
            /// # Errors
            ///
            /// If the supervising shell has ended.
            pub fn pause(&self) -> std::io::Result<()> {
                self.0.pause()
            }

            /// Continues the server after [`pause`](Self::pause).
            ///
            /// # Errors
            ///
            /// If the supervising shell has ended.
            pub fn resume(&self) -> std::io::Result<()> {
                self.0.resume()
            }
        }
    };
}

pub(crate) use forward_to_sql_server;
