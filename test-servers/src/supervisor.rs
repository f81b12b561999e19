//! The shell that supervises a server. It outlives this process only to stop the server.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, process};

/// The shell that starts the server, signals it, and stops it when the pipe with its orders closes.
/// The operating system closes the pipe however this process ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    folder: PathBuf,
    shell: Child,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Spawns a shell for a server that `command` starts. In the end the shell removes `folder`.
    pub(crate) fn new(
        folder: PathBuf,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        Self::spawn(Command::new("sh"), folder, command)
    }

    /// Like [`new`](Self::new). If this process runs as root, the folder belongs to `nobody` and the
    /// shell runs as `nobody`, because a database server refuses to run as root.
    pub(crate) fn unprivileged(
        folder: PathBuf,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        if fs::metadata(&folder)?.uid() == 0 {
            let (user, group) = (id_of_nobody("-u")?, id_of_nobody("-g")?);
            chown(&folder, Some(user), Some(group))?;
            shell.uid(user).gid(group);
        }
        // `nobody` may be unable to read the current folder of this process.
        shell.current_dir(&folder);
        Self::spawn(shell, folder, command)
    }

    fn spawn(
        mut shell: Command,
        folder: PathBuf,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = shell
            .args(["-c", include_str!("supervisor.sh"), "supervisor"])
            .arg(&folder)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = shell.stdin.take();
        let answers = shell.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            folder,
            shell,
            pipes: Mutex::new(Pipes {
                orders,
                answers: BufReader::new(answers),
            }),
        })
    }

    /// The folder of the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the server has logged since its start.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Starts the server. A server that still runs is killed first.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.send_order("start").map(|_| ())
    }

    /// Kills the server and its children with SIGKILL.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.send_order("kill").map(|_| ())
    }

    /// Freezes the server and its children with SIGSTOP.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.send_order("pause").map(|_| ())
    }

    /// Continues them after [`pause`](Self::pause).
    pub(crate) fn resume(&self) -> io::Result<()> {
        self.send_order("resume").map(|_| ())
    }

    /// Waits until the server exits by itself.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.send_order("wait").map(|_| ())
    }

    /// Whether the server runs.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        self.send_order("runs")
    }

    /// Runs another program to its end. Returns whether it succeeded.
    pub(crate) fn run(&self, command: &[String]) -> io::Result<bool> {
        self.send_order(&format!("run\n{}\n", command.join("\n")))
    }

    /// Sends an order and waits until the shell has carried it out. Returns whether the shell answered yes.
    fn send_order(&self, order: &str) -> io::Result<bool> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = pipes.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        match pipes.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(answer == "yes\n"),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let pipes = self.pipes.get_mut();
        pipes.unwrap_or_else(PoisonError::into_inner).orders = None;
        // The shell cleans up. A drop cannot report its failure.
        let _ = self.shell.wait();
    }
}

/// Creates a folder for a server of this kind; a [`Supervisor`] removes it.
pub(crate) fn new_folder(kind: &str) -> io::Result<PathBuf> {
    // Short, because the path of a socket may be at most about 100 bytes long.
    let random = RandomState::new().hash_one(kind) >> 32;
    let name = format!("{kind}-{}-{random:08x}", process::id());
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn id_of_nobody(which: &str) -> io::Result<u32> {
    let output = Command::new("id").args([which, "nobody"]).output()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().parse();
    id.map_err(|_| {
        io::Error::other("there is no user `nobody`, and a database server refuses to run as root")
    })
}
