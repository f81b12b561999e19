//! A cluster of etcd for tests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::ports::Port;
use crate::program::{find, path};
use crate::shared::Shared;
use crate::supervisor::{Supervisor, new_folder};

/// A private cluster of etcd on free ports, in temporary folders, stopped and removed when dropped.
///
/// Shells that watch this process stop the members even if the process ends without running destructors. All methods block until they
/// are done. The program `etcd` is searched on `PATH`; the environment variable `ETCD` names another.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdMember>,
}

/// A member of an [`EtcdCluster`].
#[derive(Debug)]
pub struct EtcdMember {
    port: Port,
    /// For the other members.
    _peer: Port,
    supervisor: Supervisor,
}

impl EtcdCluster {
    /// Starts a cluster of so many members, and waits until it has a leader.
    ///
    /// # Errors
    ///
    /// If etcd is not installed, or a member does not start within two minutes.
    pub fn start(members: usize) -> io::Result<Self> {
        Self::start_with(members, [])
    }

    /// Starts a cluster whose members have arguments such as `["--quota-backend-bytes=16777216"]`. `{port}` becomes the port for clients.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If a member exits, the error contains its log.
    pub fn start_with<const N: usize>(members: usize, args: [&str; N]) -> io::Result<Self> {
        let program = program()?;
        let ports = (0..members).map(|_| Ok((Port::free()?, Port::free()?)));
        let ports = ports.collect::<io::Result<Vec<_>>>()?;
        let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
        let peers = ports.iter().enumerate();
        let peers: Vec<_> = peers
            .map(|(at, (_, peer))| format!("m{at}={}", url(peer)))
            .collect();
        let peers = peers.join(",");
        let members = ports.into_iter().enumerate().map(|(at, (port, peer))| {
            let folder = new_folder("etcd")?;
            let data = folder.join("data").display().to_string();
            let number = port.number().to_string();
            let (clients, peers_url) = (url(&port), url(&peer));
            let command = [
                program.display().to_string(),
                "--name".into(),
                format!("m{at}"),
                "--data-dir".into(),
                data,
            ]
            .into_iter()
            .chain([
                "--listen-client-urls".into(),
                clients.clone(),
                "--advertise-client-urls".into(),
                clients,
            ])
            .chain([
                "--listen-peer-urls".into(),
                peers_url.clone(),
                "--initial-advertise-peer-urls".into(),
                peers_url,
            ])
            .chain([
                "--initial-cluster".into(),
                peers.clone(),
                "--logger".into(),
                "zap".into(),
            ])
            .chain(args.iter().map(|arg| arg.replace("{port}", &number)));
            let supervisor = Supervisor::new(folder, command)?;
            supervisor.start()?;
            Ok(EtcdMember {
                port,
                _peer: peer,
                supervisor,
            })
        });
        let cluster = Self {
            members: members.collect::<io::Result<_>>()?,
        };
        cluster.leader()?;
        for member in cluster.members() {
            member.wait_until_healthy()?;
        }
        Ok(cluster)
    }

    /// The cluster with one member that all tests of this process share. The first caller starts it.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start).
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Shared<EtcdCluster> = Shared::new();

        SHARED.get_or_start(|| Self::start(1))
    }

    /// The URL of the cluster: `etcd://127.0.0.1:21234,127.0.0.1:…` with every member.
    pub fn url(&self) -> String {
        let addresses = self.members.iter().map(EtcdMember::address);
        format!("etcd://{}", addresses.collect::<Vec<_>>().join(","))
    }

    /// The members, for tests that kill and restart them.
    pub fn members(&self) -> &[EtcdMember] {
        &self.members
    }

    /// Waits until a member says that it is the leader, and returns it.
    ///
    /// # Errors
    ///
    /// If there is no leader within two minutes.
    pub fn leader(&self) -> io::Result<&EtcdMember> {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            if let Some(leader) = self.members.iter().find(|member| member.is_leader()) {
                return Ok(leader);
            }
            for member in &self.members {
                if Instant::now() > deadline {
                    let log = member.supervisor.log();
                    return Err(io::Error::other(format!(
                        "etcd has no leader; a log: {log}"
                    )));
                }
            }
            sleep(Duration::from_millis(20));
        }
    }
}

impl EtcdMember {
    /// Its address, such as `127.0.0.1:21234`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Kills it with SIGKILL. Its data stays.
    ///
    /// # Errors
    ///
    /// If the shell that started it is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.supervisor.kill()
    }

    /// Starts it again after [`kill`](Self::kill). Does not wait until it answers.
    ///
    /// # Errors
    ///
    /// Like [`kill`](Self::kill).
    pub fn restart(&self) -> io::Result<()> {
        self.supervisor.start()
    }

    /// Freezes it with SIGSTOP until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// Like [`kill`](Self::kill).
    pub fn pause(&self) -> io::Result<()> {
        self.supervisor.pause()
    }

    /// Continues it after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// Like [`kill`](Self::kill).
    pub fn resume(&self) -> io::Result<()> {
        self.supervisor.resume()
    }

    /// Waits until it answers and has a leader.
    ///
    /// # Errors
    ///
    /// If it does not within two minutes. The error contains its log.
    pub fn wait_until_healthy(&self) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_mins(2);
        while !self
            .ask("GET", "/health", "")
            .is_ok_and(|answer| answer.contains("\"true\""))
        {
            if Instant::now() > deadline {
                let log = self.supervisor.log();
                return Err(io::Error::other(format!(
                    "a member of etcd is not healthy; its log: {log}"
                )));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sends a request to its gateway of JSON, such as `/v3/maintenance/status` with `{}`, and returns the answer.
    ///
    /// # Errors
    ///
    /// If it does not answer within five seconds.
    pub fn post(&self, path: &str, json: &str) -> io::Result<String> {
        self.ask("POST", path, json)
    }

    fn is_leader(&self) -> bool {
        let Ok(status) = self.post("/v3/maintenance/status", "{}") else {
            return false;
        };
        let number = |name: &str| {
            let rest = status.split_once(&format!("\"{name}\":\""))?.1;
            rest.split_once('"').map(|(number, _)| number.to_owned())
        };
        number("leader").is_some_and(|leader| number("member_id") == Some(leader))
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> io::Result<String> {
        let address = ([127, 0, 0, 1], self.port.number()).into();
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn program() -> io::Result<PathBuf> {
    if let Some(program) = std::env::var_os("ETCD") {
        return Ok(program.into());
    }
    find("etcd", &path()).ok_or_else(|| {
        let message = "cannot find `etcd`; install it with `apt-get install etcd-server` or `brew install etcd`, or name it in ETCD";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}
