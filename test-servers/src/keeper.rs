//! The shell that looks after a server, and outlives the process just long enough to stop it.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, process};

/// The shell that starts the server, signals it, and stops it when its orders end: they come by a
/// pipe, which closes when this process is gone, whatever ended it.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    shell: Child,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// A shell for a server that is started by these words. It removes the folder in the end.
    pub(crate) fn new(
        folder: PathBuf,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        Self::spawn(Command::new("sh"), folder, command)
    }

    /// The same, but a process of root gives the folder to `nobody` and runs the shell as such,
    /// because a database server refuses to be root's.
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
        // The folder of this process may be closed to that user.
        shell.current_dir(&folder);
        Self::spawn(shell, folder, command)
    }

    fn spawn(
        mut shell: Command,
        folder: PathBuf,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = shell
            .args(["-c", include_str!("keeper.sh"), "keeper"])
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

    /// Where the server lives.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the server said since its start.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Starts the server, and kills the one that runs.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.tell("start").map(|_| ())
    }

    /// Kills the server and its children with SIGKILL.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.tell("kill").map(|_| ())
    }

    /// Stops the server and its children in their tracks with SIGSTOP.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.tell("pause").map(|_| ())
    }

    /// Lets them go on after [`pause`](Self::pause).
    pub(crate) fn resume(&self) -> io::Result<()> {
        self.tell("resume").map(|_| ())
    }

    /// Waits until the server ends by itself.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.tell("wait").map(|_| ())
    }

    /// Whether the server runs.
    pub(crate) fn runs(&self) -> io::Result<bool> {
        self.tell("runs")
    }

    /// Runs another program, given word by word, to its end; whether it succeeded.
    pub(crate) fn run(&self, command: &[String]) -> io::Result<bool> {
        self.tell(&format!("run\n{}\n", command.join("\n")))
    }

    /// Waits until the order is carried out; whether the answer is yes.
    fn tell(&self, order: &str) -> io::Result<bool> {
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

impl Drop for Keeper {
    fn drop(&mut self) {
        let pipes = self.pipes.get_mut();
        pipes.unwrap_or_else(PoisonError::into_inner).orders = None;
        // What is left is the shell's; there is nobody to tell if it fails.
        let _ = self.shell.wait();
    }
}

/// A new folder for a server of this kind; a [`Keeper`] removes it.
pub(crate) fn new_folder(kind: &str) -> io::Result<PathBuf> {
    // Short, because the path of a socket may have no more than about 100 bytes.
    let random = RandomState::new().hash_one(kind) >> 32;
    let name = format!("{kind}-{}-{random:08x}", process::id());
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn id_of_nobody(which: &str) -> io::Result<u32> {
    let output = Command::new("id").args([which, "nobody"]).output()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().parse();
    id.map_err(|_| io::Error::other("there is no user `nobody`, and a server may not be root's"))
}
