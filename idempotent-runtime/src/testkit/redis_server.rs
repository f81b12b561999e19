//! A Redis server of the test's own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs, process};

/// A private `redis-server` on a free port, in a temporary folder, gone when dropped.
///
/// It is gone, too, when the process ends without running destructors: a shell that watches the
/// process stops the server and removes the folder. Nothing is persisted unless told by arguments.
/// All methods block until done.
///
/// `REDIS_SERVER` in the environment names another program, such as `valkey-server`.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    folder: PathBuf,
    keeper: Mutex<Keeper>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// If the program is not installed, or the server does not answer within ten seconds.
    pub fn start() -> io::Result<Self> {
        Self::start_with([])
    }

    /// Starts a server with arguments, such as `["--maxmemory", "3mb"]`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start); a server that exits says why in the text.
    pub fn start_with<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        let program = program()?;
        loop {
            // Between here and the server's own bind the port may be taken by another.
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let folder = new_folder()?;
            let keeper = Keeper::new(&program, port, &folder, &args)?;
            let server = Self {
                port,
                folder,
                keeper: Mutex::new(keeper),
            };
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                launched => return launched.map(|()| server),
            }
        }
    }

    /// The one server that the tests of this process share; started by the first that asks.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Mutex<Option<&'static RedisServer>> = Mutex::new(None);

        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = *shared {
            return Ok(server);
        }
        let server: &'static Self = Box::leak(Box::new(Self::start()?));
        *shared = Some(server);
        Ok(server)
    }

    /// Where it is, such as `redis://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it with SIGKILL, as a power failure would.
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.tell("kill")
    }

    /// Kills it and starts it again, on the same port and in the same folder.
    ///
    /// # Errors
    ///
    /// If it does not answer within ten seconds, or another program took the port.
    pub fn restart(&self) -> io::Result<()> {
        self.tell("kill")?;
        self.launch()
    }

    /// Stops it in its tracks with SIGSTOP: connections stay, answers do not come.
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn pause(&self) -> io::Result<()> {
        self.tell("pause")
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// If the watching shell is gone.
    pub fn resume(&self) -> io::Result<()> {
        self.tell("resume")
    }

    fn tell(&self, order: &str) -> io::Result<()> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.tell(order)
    }

    fn launch(&self) -> io::Result<()> {
        self.tell("start")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if is_ready(&self.folder.join(SOCKET)) {
                return Ok(());
            }
            let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
            if log.contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if log.contains("FATAL CONFIG") || Instant::now() > deadline {
                let message = format!("the server does not answer; its log says: {log}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            sleep(Duration::from_millis(5));
        }
    }
}

const SOCKET: &str = "redis.sock";
const LOG: &str = "log";

fn program() -> io::Result<String> {
    let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let found = Command::new(&program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    found.map(|_| program.clone()).map_err(|error| {
        let message = format!(
            "cannot run `{program}`: {error}; install it with `apt-get install redis-server` or \
             `brew install redis`, or name another one in REDIS_SERVER"
        );
        io::Error::new(error.kind(), message)
    })
}

fn new_folder() -> io::Result<PathBuf> {
    // Short, because the path of a socket may have no more than about 100 bytes.
    let name = format!("redis-{}-{:08x}", process::id(), rand::random::<u32>());
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// Whether the server answers. It is asked by its socket in the folder: on the port it may be
/// another program that answers.
fn is_ready(socket: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"+PONG\r\n" || answer == *b"-NOAUTH")
    };
    ask().unwrap_or(false)
}

/// The shell that starts the server, signals it, and stops it when its orders end: they come by a
/// pipe, which closes when this process is gone, whatever ended it.
#[derive(Debug)]
struct Keeper {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
server=
while read -r order; do
  case $order in
    start) rm -f "$folder/redis.sock"; "$@" </dev/null >"$folder/log" 2>&1 & server=$! ;;
    kill) kill -KILL "$server"; wait "$server" ;;
    pause) kill -STOP "$server" ;;
    resume) kill -CONT "$server" ;;
  esac
  echo done
done
kill -KILL "$server"
wait "$server"
rm -rf "$folder"
"#;

impl Keeper {
    fn new(program: &str, port: u16, folder: &Path, args: &[&str]) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", KEEPER, "redis-keeper"])
            .arg(folder)
            .args([program, "--port", &port.to_string(), "--bind", "127.0.0.1"])
            .arg("--unixsocket")
            .arg(folder.join(SOCKET))
            .arg("--dir")
            .arg(folder)
            .args(["--save", "", "--appendonly", "no"])
            .args(args)
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

    fn tell(&mut self, order: &str) -> io::Result<()> {
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
