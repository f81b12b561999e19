//! Requests to an axum server whose handler is guarded in different ways.
//!
//! Each contender is a separate server process, so that the client and the server share no runtime. All servers use one Redis.

mod by_hand;
mod client;
mod handler;
mod server;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use redis::{Client, Connection as RedisConnection, cmd};
use tokio::runtime::Runtime;

use self::client::Connection;
use crate::latency::Took;
use crate::{KEPT, Lap, Run, TTL, owner, timed};

pub use self::server::serve;

/// The numbers of connections that send requests at the same time.
pub const CONNECTIONS: [u32; 3] = [1, 64, 512];

/// The ways to guard the handler, in the order of the table: their names as arguments and in tables.
const CONTENDERS: [(&str, &str); 4] = [
    (LAYER, "layer"),
    (BY_HAND, "by hand"),
    (PEER, "idempotent 2.0"),
    (NO_LAYER, "no layer"),
];

const LAYER: &str = "layer";
const BY_HAND: &str = "by-hand";
const PEER: &str = "peer";
const NO_LAYER: &str = "no-layer";

/// The first argument of a server process.
const SERVE: &str = "serve-http";

/// The servers and their Redis.
pub struct OnHttp {
    runtime: Runtime,
    servers: Vec<(&'static str, Server)>,
    redis: Mutex<RedisConnection>,
    /// The version of the Redis.
    pub version: String,
    _redis: RedisServer,
}

impl OnHttp {
    /// Starts the Redis and the servers. The servers are processes of this program, which must call [`serve`] first.
    pub fn start() -> Self {
        let redis = RedisServer::start().expect("redis-server is installed");
        let client = Client::open(redis.url()).expect("a client");
        let mut connection = client.get_connection().expect("a connection");
        let info: String = cmd("INFO")
            .arg("server")
            .query(&mut connection)
            .expect("an answer");
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        let start = |(contender, name)| (name, Server::start(contender, &redis.url()));
        Self {
            runtime: Runtime::new().expect("a runtime"),
            servers: CONTENDERS.into_iter().map(start).collect(),
            redis: Mutex::new(connection),
            version: version.unwrap_or("unknown").to_owned(),
            _redis: redis,
        }
    }

    /// Requests with new keys.
    pub fn firsts(&self, connections: u32) -> Vec<Lap<'_>> {
        self.laps(connections, Keys::New)
    }

    /// Requests with a key whose response is stored. Each connection has its own key.
    pub fn replays(&self, connections: u32) -> Vec<Lap<'_>> {
        self.laps(connections, Keys::Same)
    }

    fn laps(&self, connections: u32, keys: Keys) -> Vec<Lap<'_>> {
        let lap = |(name, server): &'_ (&'static str, Server)| {
            let replays = keys == Keys::Same && *name != CONTENDERS[3].1;
            (*name, self.lap(server, connections, keys, replays))
        };
        self.servers.iter().map(lap).collect()
    }

    /// The requests of each connection in a loop. All responses must be replays, or none.
    fn lap(&self, server: &Server, connections: u32, keys: Keys, replays: bool) -> Run<'_> {
        let open = |_| {
            self.runtime.block_on(async {
                let mut connection = Connection::open(server.address).await;
                let key = new_key();
                if keys == Keys::Same {
                    connection.post(&key).await;
                }
                (connection, key)
            })
        };
        let open: Vec<(Connection, String)> = (0..connections).map(open).collect();
        let open = Mutex::new(open);
        Box::new(move |requests| {
            if keys == Keys::New {
                self.flush();
            }
            let mut open = open.lock().expect("no lap panicked");
            let tasks = open.drain(..).map(|(mut connection, key)| async move {
                let mut durations = Vec::with_capacity(usize::try_from(requests).expect("a few"));
                for _ in 0..requests {
                    let new = (keys == Keys::New).then(new_key);
                    let start = Instant::now();
                    let is_replay = connection.post(new.as_ref().unwrap_or(&key)).await;
                    durations.push(start.elapsed());
                    assert_eq!(is_replay, replays, "a replay when it should be one");
                }
                ((connection, key), durations)
            });
            let (total, ended) = timed(&self.runtime, tasks);
            let (connections, durations): (Vec<_>, Vec<Vec<Duration>>) = ended.into_iter().unzip();
            *open = connections;
            Took::each(total, &durations)
        })
    }

    /// Removes the responses of the last lap, which would fill the memory.
    fn flush(&self) {
        let mut redis = self.redis.lock().expect("no lap panicked");
        let flushed = cmd("FLUSHALL").query::<()>(&mut *redis);
        flushed.expect("an answer");
    }
}

/// The keys of the requests of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// A new key for each request.
    New,
    /// One key for all.
    Same,
}

/// A key that no other request of this process has, as long as a UUID without hyphens.
fn new_key() -> String {
    static KEYS: AtomicU64 = AtomicU64::new(0);

    format!("{:032x}", KEYS.fetch_add(1, Ordering::Relaxed))
}

/// A server process. It is killed when dropped, and ends when this process ends.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(contender: &str, redis_url: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args([SERVE, contender, redis_url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("the address of the server");
        let address = line.trim().parse().expect("the address of the server");
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
