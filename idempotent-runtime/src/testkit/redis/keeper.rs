//! The shell that looks after a server, and outlives the process just long enough to stop it.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The shell that starts the server, signals it, and stops it when its orders end: they come by a
/// pipe, which closes when this process is gone, whatever ended it.
#[derive(Debug)]
pub(super) struct Keeper {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

pub(super) const SOCKET: &str = "redis.sock";
pub(super) const LOG: &str = "log";

const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
server=
stop() {
  [ "$server" ] || return
  kill -KILL "$server"
  wait "$server"
  # Its number may be another's from now on.
  server=
}
tell() {
  [ "$server" ] && kill "$1" "$server"
}
while read -r order; do
  case $order in
    start) stop; rm -f "$folder/redis.sock"; "$@" </dev/null >"$folder/log" 2>&1 & server=$! ;;
    kill) stop ;;
    end) wait "$server"; server= ;;
    pause) tell -STOP ;;
    resume) tell -CONT ;;
  esac
  echo done
done
stop
rm -rf "$folder"
"#;

impl Keeper {
    /// A shell for a server that is started by these words, in this folder.
    pub(super) fn new(
        folder: &Path,
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", KEEPER, "redis-keeper"])
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

    /// Waits until the order is carried out.
    pub(super) fn tell(&mut self, order: &str) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        // What is left is the shell's; there is nobody to tell if it fails.
        let _ = self.shell.wait();
    }
}
