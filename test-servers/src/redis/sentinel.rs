//! A Redis master with replicas and sentinels, for tests.

use std::io;

use super::server::RedisServer;
use super::wait::wait_for;

/// A private Redis master with replicas, and three sentinels that replace a failed master.
///
/// The sentinels replace a master that did not answer for a second, about a second later. All servers
/// stop when this is dropped, and when the process ends without running destructors.
/// All methods block until they are done.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinels {
    /// Starts a master with one replica, and waits until the sentinels know all servers.
    ///
    /// # Errors
    ///
    /// Like [`RedisServer::start`], and if the servers do not find each other within two minutes.
    pub fn start() -> io::Result<Self> {
        Self::start_with(1, [])
    }

    /// Starts a master with `replicas`, and gives all of them arguments such as `["--appendonly", "yes"]`.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If a server exits, the error contains its log.
    pub fn start_with<const N: usize>(replicas: usize, args: [&str; N]) -> io::Result<Self> {
        let new_server = |lines: &str| {
            let lines = format!("repl-diskless-sync-delay 0\n{lines}");
            RedisServer::start_set_up(|_| Ok(lines.clone()), &args)
        };
        let mut servers = vec![new_server("")?];
        let port = servers[0].port();
        for _ in 0..replicas {
            // In the file, where a sentinel can change the line: an argument would return with a restart.
            let replica = new_server(&format!("replicaof 127.0.0.1 {port}\n"))?;
            // The sentinels ask a master for its replicas immediately, then every ten seconds.
            wait_for("a replica to be in sync", || {
                Ok(is_in_sync(&replica)?.then_some(()))
            })?;
            servers.push(replica);
        }
        let sentinels: io::Result<Vec<_>> = (0..SENTINELS).map(|_| new_sentinel(port)).collect();
        let group = Self {
            servers,
            sentinels: sentinels?,
        };
        group.wait_until_healthy()?;
        Ok(group)
    }

    /// The URL of the master: `redis-sentinel://127.0.0.1:41234,127.0.0.1:…/mymaster` with every sentinel.
    pub fn url(&self) -> String {
        let addresses = self.sentinels.iter().map(RedisServer::port);
        let addresses: Vec<_> = addresses.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-sentinel://{}/{NAME}", addresses.join(","))
    }

    /// The servers, for tests that kill and restart them. The server that began as master comes first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels, which are servers as well.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Waits until all sentinels that answer agree on the master, and returns it.
    ///
    /// # Errors
    ///
    /// If they do not agree, or do not answer, within two minutes.
    pub fn master(&self) -> io::Result<&RedisServer> {
        wait_for("the sentinels to agree on a master", || {
            Ok(self.agreed_master())
        })
    }

    /// The first server that is not the master.
    ///
    /// # Errors
    ///
    /// Like [`master`](Self::master), and if there is no replica.
    pub fn replica(&self) -> io::Result<&RedisServer> {
        let master = self.master()?.port();
        let mut others = self.servers.iter().filter(|server| server.port() != master);
        others.next().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits until another server is the master instead of `old`, which was killed or paused, and returns
    /// it.
    ///
    /// # Errors
    ///
    /// If `old` is not replaced within two minutes.
    pub fn wait_for_failover(&self, old: &RedisServer) -> io::Result<&RedisServer> {
        wait_for("a master to be replaced", || {
            let master = self.agreed_master();
            let Some(master) = master.filter(|master| master.port() != old.port()) else {
                return Ok(None);
            };
            let role = master.ask(&["ROLE"])?;
            Ok((role.first().map(String::as_str) == Some("master")).then_some(master))
        })
    }

    /// Lets the sentinels make another server the master while the master runs, and returns the new master.
    ///
    /// On a busy machine the sentinels may give up after `failover-timeout`, so this sends the request again until the master
    /// is replaced.
    ///
    /// # Errors
    ///
    /// If the master is not replaced within two minutes.
    pub fn fail_over(&self) -> io::Result<&RedisServer> {
        let (old, first) = (self.master()?, &self.sentinels[0]);
        wait_for("a master to be replaced on request", || {
            // The sentinel refuses the request while a fail-over runs. It must not replace the new master.
            let master = first.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
            if master.last() == Some(&old.port().to_string()) {
                let _ = first.ask(&["SENTINEL", "FAILOVER", NAME]);
                return Ok(None);
            }
            Ok(Some(()))
        })?;
        self.wait_for_failover(old)
    }

    /// Lets the sentinels replace no master by themselves: on a busy machine a master may not answer for a second.
    ///
    /// # Errors
    ///
    /// If a sentinel does not answer.
    pub fn keep_master(&self) -> io::Result<()> {
        let settings = [
            "SENTINEL",
            "SET",
            NAME,
            "down-after-milliseconds",
            "3600000",
        ];
        self.sentinels
            .iter()
            .try_for_each(|sentinel| sentinel.ask(&settings).map(drop))
    }

    /// Waits until the replicas are in sync, and every sentinel knows all servers and all other sentinels.
    ///
    /// # Errors
    ///
    /// If that does not happen within two minutes.
    pub fn wait_until_healthy(&self) -> io::Result<()> {
        wait_for("the sentinels to find each other", || {
            let Some(master) = self.agreed_master() else {
                return Ok(None);
            };
            for server in &self.servers {
                if server.port() != master.port() && !is_in_sync(server)? {
                    return Ok(None);
                }
            }
            for sentinel in &self.sentinels {
                if !self.knows_all(sentinel)? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    /// The master that all sentinels name. Sentinels that do not answer are ignored.
    fn agreed_master(&self) -> Option<&RedisServer> {
        let mut agreed = None;
        for sentinel in &self.sentinels {
            let Ok(address) = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]) else {
                continue;
            };
            if agreed.as_ref().is_some_and(|agreed| *agreed != address) {
                return None;
            }
            agreed = Some(address);
        }
        let port = agreed.and_then(|address| address.last()?.parse().ok());
        self.servers
            .iter()
            .find(|server| Some(server.port()) == port)
    }

    fn knows_all(&self, sentinel: &RedisServer) -> io::Result<bool> {
        let master = sentinel.ask(&["SENTINEL", "MASTER", NAME])?;
        let replicas = sentinel.ask(&["SENTINEL", "REPLICAS", NAME])?;
        let (others, count) = (SENTINELS - 1, self.servers.len() - 1);
        let in_sync = field_values(&replicas, "master-link-status").filter(|link| *link == "ok");
        let well = field_values(&replicas, "flags").filter(|flags| *flags == "slave");
        Ok(field_values(&master, "flags").eq(["master"])
            && field_values(&master, "num-other-sentinels").eq([others.to_string()])
            && in_sync.count() == count
            && well.count() == count)
    }
}

const SENTINELS: usize = 3;
const NAME: &str = "mymaster";

fn new_sentinel(master: u16) -> io::Result<RedisServer> {
    let lines = format!(
        "sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {NAME} 1000\n\
         sentinel failover-timeout {NAME} 5000\n"
    );
    let sentinel = RedisServer::start_set_up(|_| Ok(lines.clone()), &["--sentinel"])?;
    // The sentinels find each other sooner. Old servers refuse this command.
    let shorter_periods = [
        "SENTINEL",
        "DEBUG",
        "PUBLISH-PERIOD",
        "200",
        "INFO-PERIOD",
        "500",
    ];
    let _ = sentinel.ask(&shorter_periods);
    Ok(sentinel)
}

fn is_in_sync(replica: &RedisServer) -> io::Result<bool> {
    let info = replica.ask_text(&["INFO", "replication"])?;
    Ok(info.contains("master_link_status:up"))
}

/// The values of `name` in a list in which each name is followed by its value.
fn field_values<'a>(list: &'a [String], name: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = list.chunks_exact(2).filter(move |pair| pair[0] == name);
    pairs.map(|pair| pair[1].as_str())
}
