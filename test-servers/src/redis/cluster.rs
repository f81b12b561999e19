//! A Redis Cluster for tests.

use std::io;

use super::server::{Location, RedisServer};
use super::wait::wait_for;

/// A private Redis Cluster on free ports, made of [`RedisServer`]s.
///
/// One of its replicas replaces a master that did not answer for 1.5 seconds. Without replicas nobody can replace a master, and a
/// node on a busy machine counts as failed only after 20 seconds. All nodes stop when this is dropped, and when the process ends
/// without running destructors.
/// All methods block until they are done.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `masters`, each with `replicas_per_master`, and waits until all nodes are in sync, which
    /// takes about three seconds.
    ///
    /// Every master serves an equal share of the slots.
    ///
    /// # Errors
    ///
    /// Like [`RedisServer::start`], and if the nodes do not agree within two minutes.
    pub fn start(masters: usize, replicas_per_master: usize) -> io::Result<Self> {
        Self::start_with(masters, replicas_per_master, [])
    }

    /// Like [`start`](Self::start), with arguments for every node, such as `["--appendonly", "yes"]`.
    ///
    /// # Errors
    ///
    /// Like [`start`](Self::start). If a node exits, the error contains its log.
    pub fn start_with<const N: usize>(
        masters: usize,
        replicas_per_master: usize,
        args: [&str; N],
    ) -> io::Result<Self> {
        let nodes = masters * (1 + replicas_per_master);
        let timeout = if replicas_per_master > 0 {
            1500
        } else {
            20_000
        };
        let nodes: io::Result<Vec<_>> = (0..nodes).map(|_| new_node(timeout, &args)).collect();
        let cluster = Self { nodes: nodes? };
        cluster.share_slots(masters)?;
        cluster.introduce_nodes()?;
        let (masters, replicas) = cluster.nodes.split_at(masters);
        let masters_in_turn = masters.iter().cycle();
        for (replica, master) in replicas.iter().zip(masters_in_turn) {
            let id = master.ask_text(&["CLUSTER", "MYID"])?;
            wait_for("a node to know its master", || {
                replica.ask(&["CLUSTER", "REPLICATE", &id]).map(Some)
            })?;
        }
        cluster.wait_until_healthy()?;
        Ok(cluster)
    }

    /// The URL of the cluster: `redis-cluster://127.0.0.1:41234,127.0.0.1:…` with every node.
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(address).collect();
        format!("redis-cluster://{}", nodes.join(","))
    }

    /// The URLs of its nodes, such as `redis://127.0.0.1:41234`.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Its nodes, for tests that kill and restart them. The nodes that began as masters come first.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Waits until all nodes that answer agree on the master of `key`, and returns it.
    ///
    /// A paused node costs five seconds.
    ///
    /// # Errors
    ///
    /// If the nodes do not agree within two minutes.
    pub fn master_of(&self, key: &str) -> io::Result<&RedisServer> {
        wait_for("the nodes to agree on a master", || {
            self.agreed_master(key, self.nodes.iter())
        })
    }

    /// Waits until another master serves `key` instead of `old`, which was killed or paused, and returns
    /// it.
    ///
    /// # Errors
    ///
    /// If `old` is not replaced within two minutes.
    pub fn wait_for_failover(&self, key: &str, old: &RedisServer) -> io::Result<&RedisServer> {
        wait_for("a master to be replaced", || {
            let others = self.nodes.iter().filter(|node| node.port() != old.port());
            let master = self.agreed_master(key, others)?;
            Ok(master.filter(|master| master.port() != old.port()))
        })
    }

    /// Waits until every node answers and knows all others, and all replicas are in sync.
    ///
    /// # Errors
    ///
    /// If that does not happen within two minutes.
    pub fn wait_until_healthy(&self) -> io::Result<()> {
        wait_for("the nodes to find each other", || {
            let mut healthy = true;
            for node in &self.nodes {
                healthy &= self.knows_all(node)?;
            }
            Ok(healthy.then_some(()))
        })
    }

    /// Begins to move the slot of `key` to another master.
    ///
    /// From now on the old master answers for the keys that it still has. For other keys of the slot it
    /// redirects clients to the new master with `ASK`.
    ///
    /// # Errors
    ///
    /// If there is no other master, or one of the two masters does not answer.
    pub fn begin_move(&self, key: &str) -> io::Result<SlotMove<'_>> {
        let from = self.master_of(key)?;
        let slot = from.ask_text(&["CLUSTER", "KEYSLOT", key])?;
        let mut to = None;
        for node in &self.nodes {
            if node.port() != from.port() && is_master(node)? {
                to = Some(node);
                break;
            }
        }
        let to = to.ok_or_else(|| io::Error::other("there is no other master"))?;
        let [from_id, to_id] = [from, to].map(|node| node.ask_text(&["CLUSTER", "MYID"]));
        let (from_id, to_id) = (from_id?, to_id?);
        to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
        from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])?;
        Ok(SlotMove {
            cluster: self,
            slot,
            from,
            to,
            to_id,
        })
    }

    fn share_slots(&self, masters: usize) -> io::Result<()> {
        for (index, node) in self.nodes[..masters].iter().enumerate() {
            let first = index * SLOTS / masters;
            let last = (index + 1) * SLOTS / masters - 1;
            let (first, last) = (first.to_string(), last.to_string());
            node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            // With equal epochs the nodes would first have to resolve a conflict.
            let epoch = (index + 1).to_string();
            node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        Ok(())
    }

    fn introduce_nodes(&self) -> io::Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[index + 1..] {
                let bus_port = other.ask(&["CONFIG", "GET", "cluster-port"])?.remove(1);
                let port = other.port().to_string();
                node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port])?;
            }
        }
        Ok(())
    }

    fn knows_all(&self, node: &RedisServer) -> io::Result<bool> {
        let info = node.ask_text(&["CLUSTER", "INFO"])?;
        let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
        let nodes = node.ask_text(&["CLUSTER", "NODES"])?;
        let in_sync = is_master(node)?
            || node
                .ask_text(&["INFO", "replication"])?
                .contains("master_link_status:up");
        Ok(info.contains("cluster_state:ok")
            && info.contains(&format!("cluster_slots_ok:{SLOTS}\r\n"))
            && info.contains(&known)
            && !nodes.contains("handshake")
            && !nodes.contains("fail")
            && nodes.lines().filter(|line| line.contains("master")).count() == self.masters()?
            && in_sync)
    }

    /// How many nodes report that they are masters.
    fn masters(&self) -> io::Result<usize> {
        let roles: io::Result<Vec<_>> = self.nodes.iter().map(is_master).collect();
        Ok(roles?.into_iter().filter(|is_master| *is_master).count())
    }

    /// The master that all of `nodes` name. Nodes that do not answer are ignored.
    fn agreed_master<'a>(
        &self,
        key: &str,
        nodes: impl Iterator<Item = &'a RedisServer>,
    ) -> io::Result<Option<&RedisServer>> {
        let mut agreed = None;
        for node in nodes {
            let Some(port) = named_master(node, key)? else {
                continue;
            };
            if agreed.is_some_and(|agreed| agreed != port) {
                return Ok(None);
            }
            agreed = Some(port);
        }
        Ok(self.nodes.iter().find(|node| Some(node.port()) == agreed))
    }
}

/// A slot that moves from one master of a [`RedisCluster`] to another.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
    to_id: String,
}

impl<'a> SlotMove<'a> {
    /// The master that the slot leaves.
    pub fn from(&self) -> &'a RedisServer {
        self.from
    }

    /// The master that receives the slot.
    pub fn to(&self) -> &'a RedisServer {
        self.to
    }

    /// Moves the keys that are in the slot now. The old master redirects clients that ask for them with
    /// `ASK`.
    ///
    /// # Errors
    ///
    /// If one of the two masters does not answer or refuses a command.
    pub fn move_keys(&self) -> io::Result<()> {
        let count = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "1000"];
        let port = self.to.port().to_string();
        loop {
            let keys = self.from.ask(&count)?;
            if keys.is_empty() {
                return Ok(());
            }
            let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            let keys = keys.iter().map(String::as_str);
            let command: Vec<_> = migrate.into_iter().chain(keys).collect();
            self.from.ask(&command)?;
        }
    }

    /// Moves the remaining keys and waits until every node knows the new master. The old master redirects
    /// clients with `MOVED`.
    ///
    /// # Errors
    ///
    /// If a node does not answer or refuses a command.
    pub fn finish(self) -> io::Result<()> {
        self.move_keys()?;
        let done = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.to_id];
        // The new master is informed first: for a moment a slot may have two masters, but never none.
        self.to.ask(&done)?;
        self.from.ask(&done)?;
        wait_for("every node to know of a moved slot", || {
            for node in &self.cluster.nodes {
                let slots = node.ask_text(&["CLUSTER", "NODES"])?;
                if !names_owner(&slots, &self.to_id, &self.slot) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }
}

const SLOTS: usize = 16_384;

/// `timeout`: after so many milliseconds without an answer a node counts as failed.
fn new_node(timeout: u32, args: &[&str]) -> io::Result<RedisServer> {
    let set_up = |location: &Location<'_>| {
        let bus_port = location.bus_port;
        Ok(format!(
            "cluster-enabled yes\ncluster-port {bus_port}\ncluster-node-timeout {timeout}\n\
             repl-diskless-sync-delay 0\n"
        ))
    };
    RedisServer::start_set_up(set_up, args)
}

fn address(node: &RedisServer) -> String {
    format!("127.0.0.1:{}", node.port())
}

fn is_master(node: &RedisServer) -> io::Result<bool> {
    Ok(node
        .ask(&["ROLE"])?
        .first()
        .is_some_and(|role| role == "master"))
}

/// The port of the master that `node` names for `key`; `None` if the node does not answer.
fn named_master(node: &RedisServer, key: &str) -> io::Result<Option<u16>> {
    match node.ask(&["TYPE", key]) {
        Ok(_) => Ok(Some(node.port())),
        Err(error) => {
            let text = error.to_string();
            match text.split_once(' ') {
                Some(("MOVED", moved)) => {
                    let port = moved
                        .rsplit_once(':')
                        .and_then(|(_, port)| port.parse().ok());
                    port.map(Some).ok_or(error)
                }
                Some(("ASK", _)) => Ok(Some(node.port())),
                Some(("CLUSTERDOWN" | "LOADING", _)) => Err(error),
                _ => Ok(None),
            }
        }
    }
}

/// Whether a node's list of all nodes gives `slot` to the node with this id.
fn names_owner(nodes: &str, id: &str, slot: &str) -> bool {
    let Ok(slot) = slot.parse::<usize>() else {
        return false;
    };
    let line = nodes.lines().find(|line| line.starts_with(id));
    // A line has eight words about the node, then its slots.
    let mut ranges = line.into_iter().flat_map(|line| line.split(' ').skip(8));
    ranges.any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}
