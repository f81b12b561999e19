//! The servers of a run, and what is done to them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use idempotence_test_servers::{RedisCluster, RedisSentinels, RedisServer};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::broken::Fault;
use crate::history::{History, Line, Micros, What, now};
use crate::plan::{ToServer, random};
use crate::proxy::Proxy;
use crate::standing::{Standing, flush_scripts};

/// How the servers are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One that writes everything down before it answers, behind a proxy for each worker.
    One,
    /// A master with a replica that follows as it can, and three sentinels.
    Sentinels,
    /// Three masters, each with a replica that follows as it can.
    Cluster,
}

/// The servers of a run.
#[derive(Debug)]
pub struct Servers {
    kind: Kind,
    history: Arc<History>,
    /// Which of them lead, by port, and when that was looked at.
    led: Mutex<(Vec<u16>, Micros)>,
    random: Mutex<StdRng>,
}

#[derive(Debug)]
enum Kind {
    One(RedisServer, Vec<Proxy>),
    Sentinels(RedisSentinels),
    /// With a key for each master.
    Cluster(RedisCluster, Vec<String>),
}

impl Servers {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// If they cannot be started, or no port is free.
    pub async fn start(
        topology: Topology,
        workers: u32,
        seed: u64,
        fault: Fault,
        history: &Arc<History>,
    ) -> io::Result<Self> {
        let kind = match topology {
            Topology::One => {
                let appends = if fault == Fault::Forgets { "no" } else { "yes" };
                let args = ["--appendonly", appends, "--appendfsync", "always"];
                let server = block_in_place(|| RedisServer::start_with(args))?;
                let mut proxies = Vec::new();
                for worker in 0..workers {
                    let random = random(seed, 1000 + u64::from(worker));
                    let proxy = Proxy::start(server.port(), random, Arc::clone(history)).await?;
                    proxies.push(proxy);
                }
                Kind::One(server, proxies)
            }
            Topology::Sentinels => {
                let start = || RedisSentinels::start_with(1, ["--appendonly", "yes"]);
                Kind::Sentinels(block_in_place(start)?)
            }
            Topology::Cluster => {
                let cluster =
                    block_in_place(|| RedisCluster::start_with(3, 1, ["--appendonly", "yes"]))?;
                let keys = block_in_place(|| a_key_for_each_master(&cluster))?;
                Kind::Cluster(cluster, keys)
            }
        };
        let servers = Self {
            kind,
            history: Arc::clone(history),
            led: Mutex::default(),
            random: Mutex::new(random(seed, 2)),
        };
        block_in_place(|| servers.look())?;
        Ok(servers)
    }

    /// What the process in this place connects to.
    pub fn url(&self, place: u32, process: u32) -> String {
        match &self.kind {
            Kind::One(_, proxies) => proxies[place as usize].url(process),
            Kind::Sentinels(sentinels) => sentinels.url(),
            Kind::Cluster(cluster, _) => cluster.url(),
        }
    }

    /// Does it, and mends what has to be mended before it returns.
    ///
    /// # Errors
    ///
    /// If a server does not come back.
    pub async fn suffer(&self, act: ToServer) -> io::Result<()> {
        block_in_place(|| self.notice_other_leaders())?;
        match act {
            ToServer::Kill(away) => {
                let old = block_in_place(|| self.kill_a_leader())?;
                sleep(away).await;
                block_in_place(|| self.bring_back(old))?;
            }
            ToServer::Stop(away) => {
                // A leader with replicas would be replaced.
                let away = match self.kind {
                    Kind::One(..) => away,
                    _ => away / 3,
                };
                let server = block_in_place(|| self.any_leader())?;
                self.history.note(What::ServerAway);
                block_in_place(|| server.pause())?;
                sleep(away).await;
                block_in_place(|| server.resume())?;
                self.history.note(What::ServerBack);
            }
            ToServer::FlushScripts => {
                for leader in block_in_place(|| self.leaders())? {
                    let flushed = block_in_place(|| flush_scripts(&leader.url()));
                    flushed.map_err(io::Error::other)?;
                }
                self.history.note(What::ScriptsFlushed);
            }
        }
        Ok(())
    }

    /// What stands in the store.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn standing(&self) -> io::Result<Standing> {
        self.notice_other_leaders()?;
        let mut standing = Standing::default();
        for leader in self.leaders()? {
            standing.add(&leader.url()).map_err(io::Error::other)?;
        }
        Ok(standing)
    }

    fn leaders(&self) -> io::Result<Vec<&RedisServer>> {
        match &self.kind {
            Kind::One(server, _) => Ok(vec![server]),
            Kind::Sentinels(sentinels) => Ok(vec![sentinels.master()?]),
            Kind::Cluster(cluster, keys) => keys.iter().map(|key| cluster.master_of(key)).collect(),
        }
    }

    fn any_leader(&self) -> io::Result<&RedisServer> {
        let leaders = self.leaders()?;
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(leaders[random.random_range(0..leaders.len())])
    }

    /// Returns when another one leads, if there is another.
    fn kill_a_leader(&self) -> io::Result<&RedisServer> {
        let old = self.any_leader()?;
        self.history.note(match self.kind {
            Kind::One(..) => What::ServerAway,
            _ => What::LeaderKilled,
        });
        old.kill()?;
        match self.wait_for_another(old) {
            Ok(()) => {
                self.history.note(What::LeaderBack);
                self.look()?;
            }
            // None was ready to lead: all wait for the old one to come back.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        Ok(old)
    }

    fn wait_for_another(&self, old: &RedisServer) -> io::Result<()> {
        match &self.kind {
            Kind::One(..) => Err(io::ErrorKind::TimedOut.into()),
            Kind::Sentinels(sentinels) => sentinels.wait_for_failover(old).map(drop),
            Kind::Cluster(cluster, keys) => {
                let led = self.led().0.clone();
                let mut led = keys.iter().zip(led).filter(|(_, port)| *port == old.port());
                led.try_for_each(|(key, _)| cluster.wait_for_failover(key, old).map(drop))
            }
        }
    }

    fn bring_back(&self, old: &RedisServer) -> io::Result<()> {
        old.restart()?;
        match &self.kind {
            Kind::One(..) => self.history.note(What::ServerBack),
            Kind::Sentinels(sentinels) => sentinels.wait_until_healthy()?,
            Kind::Cluster(cluster, _) => cluster.wait_until_healthy()?,
        }
        // Of no account to the check if another one led in time.
        self.history.note(What::LeaderBack);
        // A third one may have taken over while the old one came back.
        self.notice_other_leaders()
    }

    /// On a machine that is busy a leader may be replaced although nobody has killed it.
    fn notice_other_leaders(&self) -> io::Result<()> {
        let (before, at) = self.led().clone();
        self.look()?;
        if self.led().0 != before {
            let what = What::LeaderKilled;
            self.history.append(&Line { at, what });
            self.history.note(What::LeaderBack);
        }
        Ok(())
    }

    fn look(&self) -> io::Result<()> {
        let at = now();
        let leaders = self.leaders()?;
        *self.led() = (leaders.into_iter().map(RedisServer::port).collect(), at);
        Ok(())
    }

    fn led(&self) -> std::sync::MutexGuard<'_, (Vec<u16>, Micros)> {
        self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
