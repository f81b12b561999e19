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
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The one server of its kind that the tests of this process share, once one is started.
pub(crate) type Shared<S> = Mutex<Option<&'static S>>;

/// The shared server; started by the first that asks.
pub(crate) fn shared<S>(
    shared: &'static Shared<S>,
    start: impl FnOnce() -> io::Result<S>,
) -> io::Result<&'static S> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = *shared {
        return Ok(server);
    }
    let server: &'static S = Box::leak(Box::new(start()?));
    *shared = Some(server);
    Ok(server)
}

/// What the server says, in its folder.
pub(crate) const LOG: &str = "log";

// A server that is stopped makes no more children; the others end by themselves without their parent.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
server=
family() {
  if [ -e /proc/self/stat ]; then
    cat "/proc/$server/task/$server/children"
  else
    pgrep -P "$server"
  fi
  echo "$server"
}
stop() {
  [ "$server" ] || return
  kill -STOP "$server"
  kill -KILL $(family)
  wait "$server"
  # Its number may be another's from now on.
  server=
}
pause() {
  [ "$server" ] || return
  kill -STOP "$server"
  kill -STOP $(family)
}
run() {
  set --
  while IFS= read -r word && [ "$word" ]; do set -- "$@" "$word"; done
  "$@" </dev/null >"$folder/log" 2>&1
}
runs() {
  if [ -e /proc/self/stat ]; then
    read -r _ _ state _ <"/proc/$server/stat"
  else
    state=$(ps -o state= -p "$server")
  fi
  case $state in '' | Z*) return 1 ;; esac
}
while read -r order; do
  answer=yes
  case $order in
    start) stop; "$@" </dev/null >"$folder/log" 2>&1 & server=$! ;;
    kill) stop ;;
    end) wait "$server"; server= ;;
    pause) pause ;;
    resume) [ "$server" ] && kill -CONT $(family) ;;
    run) run || answer=no ;;
    runs) state=; runs || answer=no ;;
  esac
  echo $answer
done
stop
# PostgreSQL leaves this in the kernel when it is killed.
segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid")
[ "$segment" ] && ipcrm -m "$segment"
# Its last processes may be about to write.
rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }
"#;

impl Keeper {
    /// A shell for a server that is started by these words, in this folder.
    pub(crate) fn new(
        folder: &Path,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        Self::spawn(Command::new("sh"), folder, command)
    }

    /// The same, but a process of root gives the folder to `nobody` and runs the shell as such,
    /// because a database server refuses to be root's.
    pub(crate) fn unprivileged(
        folder: &Path,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        if fs::metadata(folder)?.uid() == 0 {
            let (user, group) = (id_of_nobody("-u")?, id_of_nobody("-g")?);
            chown(folder, Some(user), Some(group))?;
            shell.uid(user).gid(group);
        }
        // The folder of this process may be closed to that user.
        shell.current_dir(folder);
        Self::spawn(shell, folder, command)
    }

    fn spawn(
        mut shell: Command,
        folder: &Path,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = shell
            .args(["-c", KEEPER, "keeper"])
            .arg(folder)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = shell.stdin.take();
        let answers = shell.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            shell,
            orders,
            answers: BufReader::new(answers),
        })
    }

    /// Waits until the order is carried out; whether the answer is yes.
    pub(crate) fn tell(&mut self, order: &str) -> io::Result<bool> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(answer == "yes\n"),
        }
    }

    /// Runs a program, given word by word, to its end; whether it succeeded.
    pub(crate) fn run(&mut self, command: &[String]) -> io::Result<bool> {
        self.tell(&format!("run\n{}\n", command.join("\n")))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
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
