//! Moto's stand-in of AWS for tests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::ports::Port;
use crate::program::{find, path};
use crate::shared::Shared;
use crate::supervisor::{Supervisor, new_folder};

/// A private server of moto, which stands in for AWS, on a free port. It has its data in memory, and is stopped when dropped.
///
/// It answers one request after the other: moto itself checks a condition and then writes, and threads may come between.
/// The environment variable `MOTO` names a Python with the package `moto[server]`; without it `python3` on `PATH`.
#[derive(Debug)]
pub struct MotoServer {
    port: Port,
    supervisor: Supervisor,
}

const PROGRAM: &str = r#"
import sys, threading
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

app = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()

def one_at_a_time(environ, start_response):
    with lock:
        return list(app(environ, start_response))

run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True, request_handler=MotoRequestHandler)
"#;

impl MotoServer {
    /// Starts a server, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If Python or moto is not installed, or the server does not answer within two minutes. The error contains its log.
    pub fn start() -> io::Result<Self> {
        let port = Port::free()?;
        let program = python()?.display().to_string();
        let number = port.number().to_string();
        let command = [program, "-c".into(), PROGRAM.into(), number];
        let supervisor = Supervisor::new(new_folder("moto")?, command)?;
        supervisor.start()?;
        let server = Self { port, supervisor };
        let deadline = Instant::now() + Duration::from_mins(2);
        while server.ask().is_err() {
            if Instant::now() > deadline {
                let log = server.supervisor.log();
                return Err(io::Error::other(format!(
                    "moto does not answer; its log: {log}"
                )));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// The server that all tests of this process share. The first caller starts it.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<MotoServer> = Shared::new();

        SHARED.get_or_start(Self::start)
    }

    /// The address of all services, such as `http://127.0.0.1:21234`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    fn ask(&self) -> io::Result<()> {
        let address = ([127, 0, 0, 1], self.port.number()).into();
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(stream, "GET /moto-api/ HTTP/1.0\r\n\r\n")?;
        stream.read_exact(&mut [0; 4])
    }
}

fn python() -> io::Result<PathBuf> {
    if let Some(program) = std::env::var_os("MOTO") {
        return Ok(program.into());
    }
    find("python3", &path()).ok_or_else(|| {
        let message = "cannot find `python3`; install it, and `pip install moto[server]`, or name another Python in MOTO";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}
