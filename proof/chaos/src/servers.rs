//! The servers of a run, and their faults.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use idempotence_test_servers::{MariaDbServer, RedisCluster, RedisSentinels, RedisServer};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::broken::Fault;
use crate::history::{History, HistoryEvent, Line, Micros, now};
use crate::leader::Leader;
use crate::plan::{ServerFault, random};
use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::stored::Stored;

/// The topology of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One server with `appendfsync always`, behind a proxy for each worker.
    One,
    /// A master with an asynchronous replica, and three sentinels.
    Sentinels,
    /// As `Sentinels`, but writes count only when the replica has them.
    Replicas,
    /// Three masters, each with an asynchronous replica.
    Cluster,
    /// One MariaDB, behind a proxy for each worker.
    MariaDb,
}

/// The servers of a run.
#[derive(Debug)]
pub struct Servers {
    kind: Kind,
    history: Arc<History>,
    /// The ports of the known leaders, and when they were last read.
    known_leaders: Mutex<(Vec<u16>, Micros)>,
    random: Mutex<StdRng>,
    _probe: Option<Probe>,
}

#[derive(Debug)]
enum Kind {
    One(RedisServer, Vec<Proxy>),
    /// The servers, and whether writes wait for the replica.
    Sentinels(RedisSentinels, bool),
    /// The cluster, and a key for each master.
    Cluster(RedisCluster, Vec<String>),
    /// The server, the URL of its database, and the proxies.
    MariaDb(MariaDbServer, String, Vec<Proxy>),
}

impl Topology {
    /// Whether a fail-over may lose the latest writes.
    pub fn loses_writes(self) -> bool {
        matches!(self, Self::Sentinels | Self::Cluster)
    }

    /// Whether requests go through proxies in this process.
    pub fn has_proxies(self) -> bool {
        matches!(self, Self::One | Self::MariaDb)
    }
}

impl Servers {
    /// Starts the servers.
    ///
    /// # Errors
    ///
    /// If a server cannot be started, or no port is free.
    pub async fn start(
        topology: Topology,
        workers: u32,
        seed: u64,
        fault: Fault,
        history: &Arc<History>,
    ) -> io::Result<Self> {
        let kind = match topology {
            Topology::One => {
                let appends = if fault == Fault::LosesData {
                    "no"
                } else {
                    "yes"
                };
                let args = ["--appendonly", appends, "--appendfsync", "always"];
                let server = block_in_place(|| RedisServer::start_with(args))?;
                let proxies = proxies(server.port(), workers, seed, history).await?;
                Kind::One(server, proxies)
            }
            Topology::MariaDb => {
                let server = block_in_place(MariaDbServer::start)?;
                let url = block_in_place(|| server.database())?;
                let proxies = proxies(server.port(), workers, seed, history).await?;
                Kind::MariaDb(server, url, proxies)
            }
            Topology::Sentinels | Topology::Replicas => {
                let start = || RedisSentinels::start_with(1, ["--appendonly", "yes"]);
                let waits = topology == Topology::Replicas;
                Kind::Sentinels(block_in_place(start)?, waits)
            }
            Topology::Cluster => {
                let cluster =
                    block_in_place(|| RedisCluster::start_with(3, 1, ["--appendonly", "yes"]))?;
                let keys = block_in_place(|| a_key_for_each_master(&cluster))?;
                Kind::Cluster(cluster, keys)
            }
        };
        let probed = match &kind {
            Kind::One(server, _) => Some(server.url()),
            _ => None,
        };
        let servers = Self {
            kind,
            _probe: probed.map(|url| Probe::start(url, Arc::clone(history))),
            history: Arc::clone(history),
            known_leaders: Mutex::default(),
            random: Mutex::new(random(seed, 2)),
        };
        block_in_place(|| servers.refresh_leaders())?;
        Ok(servers)
    }

    /// The URL for the process in this slot.
    pub fn url(&self, place: u32, process: u32) -> String {
        match &self.kind {
            Kind::One(_, proxies) => {
                format!("redis://{}", proxies[place as usize].address(process))
            }
            Kind::MariaDb(server, url, proxies) => {
                let direct = format!("127.0.0.1:{}", server.port());
                url.replace(&direct, &proxies[place as usize].address(process))
            }
            Kind::Sentinels(sentinels, false) => sentinels.url(),
            Kind::Sentinels(sentinels, true) => format!("{}?replicas=1", sentinels.url()),
            Kind::Cluster(cluster, _) => cluster.url(),
        }
    }

    /// Applies a fault and repairs it before it returns.
    ///
    /// # Errors
    ///
    /// If a server does not come back.
    pub async fn apply(&self, act: ServerFault) -> io::Result<()> {
        block_in_place(|| self.note_other_leaders())?;
        match act {
            ServerFault::Kill(down) => {
                // Without a replica no write is acknowledged, so every answer is as late as from a paused server.
                let waits = matches!(self.kind, Kind::Sentinels(_, true));
                if waits {
                    self.history.note(HistoryEvent::ServerDown);
                }
                let old = block_in_place(|| self.kill_a_leader())?;
                sleep(down).await;
                block_in_place(|| self.bring_back(old))?;
                if waits {
                    self.history.note(HistoryEvent::ServerUp);
                }
            }
            ServerFault::Stop(down) => {
                // After a longer pause a leader with replicas would be replaced.
                let down = match self.kind {
                    Kind::One(..) | Kind::MariaDb(..) => down,
                    _ => down / 3,
                };
                let server = block_in_place(|| self.any_leader())?;
                self.history.note(HistoryEvent::ServerDown);
                block_in_place(|| server.pause())?;
                sleep(down).await;
                block_in_place(|| server.resume())?;
                self.history.note(HistoryEvent::ServerUp);
            }
            ServerFault::CutClients => {
                let server = block_in_place(|| self.any_leader())?;
                block_in_place(|| server.cut_clients())?;
                self.history.note(HistoryEvent::ClientsCut);
            }
            ServerFault::FlushScripts => {
                for leader in block_in_place(|| self.leaders())? {
                    block_in_place(|| leader.flush_scripts())?;
                }
                self.history.note(HistoryEvent::ScriptsFlushed);
            }
        }
        Ok(())
    }

    /// Reads all records of the servers.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn stored(&self) -> io::Result<Stored> {
        self.note_other_leaders()?;
        let mut stored = Stored::default();
        for leader in self.leaders()? {
            leader.read(&mut stored)?;
        }
        Ok(stored)
    }

    fn leaders(&self) -> io::Result<Vec<Leader<'_>>> {
        match &self.kind {
            Kind::One(server, _) => Ok(vec![Leader::Redis(server)]),
            Kind::Sentinels(sentinels, _) => Ok(vec![Leader::Redis(sentinels.master()?)]),
            Kind::Cluster(cluster, keys) => {
                let masters = keys.iter().map(|key| cluster.master_of(key));
                masters.map(|master| master.map(Leader::Redis)).collect()
            }
            Kind::MariaDb(server, url, _) => Ok(vec![Leader::MariaDb(server, url)]),
        }
    }

    fn any_leader(&self) -> io::Result<Leader<'_>> {
        let leaders = self.leaders()?;
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(leaders[random.random_range(0..leaders.len())])
    }

    /// Kills a leader. If it has replicas, waits until another server is the leader.
    fn kill_a_leader(&self) -> io::Result<Leader<'_>> {
        let old = self.any_leader()?;
        let event = match self.kind {
            Kind::One(..) | Kind::MariaDb(..) => HistoryEvent::ServerDown,
            _ => HistoryEvent::LeaderKilled,
        };
        // A fail-over may lose what the replica does not have. On a busy machine it lags behind.
        let at = self.replicated(old);
        self.history.append(&Line { at, event });
        old.kill()?;
        match self.wait_for_another(old) {
            Ok(()) => {
                self.history.note(HistoryEvent::LeaderReplaced);
                self.refresh_leaders()?;
            }
            // No replica was ready, so all wait for the old leader.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        Ok(old)
    }

    /// A time before which all writes of the leader are on its replica.
    fn replicated(&self, leader: Leader<'_>) -> Micros {
        let known_leaders = self.known_leaders().0.clone();
        let key = match &self.kind {
            Kind::Sentinels(..) => Some("replicated"),
            Kind::Cluster(_, keys) => {
                let mut keys = keys.iter().zip(known_leaders);
                let key = keys.find(|(_, port)| *port == leader.port());
                key.map(|(key, _)| &**key)
            }
            Kind::One(..) | Kind::MariaDb(..) => None,
        };
        let replicated = key.and_then(|key| leader.replicated(key));
        replicated.unwrap_or_else(now)
    }

    fn wait_for_another(&self, old: Leader<'_>) -> io::Result<()> {
        match (&self.kind, old) {
            (Kind::Sentinels(sentinels, _), Leader::Redis(old)) => {
                sentinels.wait_for_failover(old).map(drop)
            }
            (Kind::Cluster(cluster, keys), Leader::Redis(old)) => {
                let known_leaders = self.known_leaders().0.clone();
                let mut known_leaders = keys
                    .iter()
                    .zip(known_leaders)
                    .filter(|(_, port)| *port == old.port());
                known_leaders.try_for_each(|(key, _)| cluster.wait_for_failover(key, old).map(drop))
            }
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn bring_back(&self, old: Leader<'_>) -> io::Result<()> {
        old.restart()?;
        match &self.kind {
            Kind::One(..) | Kind::MariaDb(..) => self.history.note(HistoryEvent::ServerUp),
            Kind::Sentinels(sentinels, _) => sentinels.wait_until_healthy()?,
            Kind::Cluster(cluster, _) => cluster.wait_until_healthy()?,
        }
        // The check ignores this if another leader was noted before.
        self.history.note(HistoryEvent::LeaderReplaced);
        // Another server may have become the leader during the restart.
        self.note_other_leaders()
    }

    /// Notes fail-overs without a kill, which happen on a busy machine.
    fn note_other_leaders(&self) -> io::Result<()> {
        let (before, at) = self.known_leaders().clone();
        self.refresh_leaders()?;
        if self.known_leaders().0 != before {
            let event = HistoryEvent::LeaderKilled;
            self.history.append(&Line { at, event });
            self.history.note(HistoryEvent::LeaderReplaced);
        }
        Ok(())
    }

    fn refresh_leaders(&self) -> io::Result<()> {
        let at = now();
        let leaders = self.leaders()?;
        *self.known_leaders() = (leaders.into_iter().map(Leader::port).collect(), at);
        Ok(())
    }

    fn known_leaders(&self) -> std::sync::MutexGuard<'_, (Vec<u16>, Micros)> {
        self.known_leaders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy for each worker.
async fn proxies(
    port: u16,
    workers: u32,
    seed: u64,
    history: &Arc<History>,
) -> io::Result<Vec<Proxy>> {
    let mut proxies = Vec::new();
    for worker in 0..workers {
        let random = random(seed, 1000 + u64::from(worker));
        proxies.push(Proxy::start(port, random, Arc::clone(history)).await?);
    }
    Ok(proxies)
}

fn a_key_for_each_master(cluster: &RedisCluster) -> io::Result<Vec<String>> {
    let masters = cluster.nodes().len() / 2;
    let mut keys = BTreeMap::new();
    for number in 0.. {
        let key = number.to_string();
        keys.entry(cluster.master_of(&key)?.port()).or_insert(key);
        if keys.len() == masters {
            break;
        }
    }
    Ok(keys.into_values().collect())
}
