//! What servers say of themselves.

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind, RedisError, Value, cmd};

use super::super::failure::is_forbidden;
use super::super::info::{config, field, is_version_7, texts};
use super::super::link::in_time;
use super::super::removal::Removal;
use super::examination::Examination;
use crate::store::Level::{Note, Problem, Warning};

impl<C: ConnectionLike> Examination<C> {
    /// Returns whether there is anybody to ask for more.
    pub(super) async fn servers(&mut self, one_server: bool) -> bool {
        let info = match self.ask::<Value>(cmd("INFO").arg("everything")).await {
            Ok(reply) => texts(reply),
            Err(error) => {
                let found = format!("the server does not answer INFO: {error}");
                if is_forbidden(&error) {
                    let advice = "allow `+info`: without it nobody knows whether records may be \
                        evicted, nor version, role, persistence and replicas";
                    self.tell(Warning, found, advice);
                    return true;
                }
                let advice = if is_locked_out(&error) {
                    "see to the user's name and password"
                } else {
                    "see whether the server runs and can be reached"
                };
                self.tell(Problem, found, advice);
                return false;
            }
        };
        for info in &info {
            self.version(info);
            self.role(info);
            self.memory(info);
            // Of a cluster's client it is not known which server answers `CONFIG`.
            self.persistence(info, one_server).await;
            self.replicas(info);
        }
        let mut of_cluster = info.iter();
        if let Some(info) = of_cluster.find(|info| field(info, "cluster_enabled") == Some("1")) {
            self.cluster(info, one_server).await;
        }
        true
    }

    fn version(&mut self, info: &str) {
        let (name, version) = match field(info, "valkey_version") {
            Some(version) => ("Valkey", version),
            None => (
                "Redis",
                field(info, "redis_version").unwrap_or("of no version"),
            ),
        };
        let claims = if is_version_7(info) {
            "SET NX GET"
        } else {
            "a script"
        };
        let removes = Removal::of_servers(&[info.to_owned()]);
        let removes = removes.command().unwrap_or("a script");
        let port = field(info, "tcp_port").unwrap_or("?");
        self.fine(format!(
            "{name} {version} (port {port}): it can claim by {claims}, and remove by {removes}"
        ));
    }

    fn role(&mut self, info: &str) {
        if field(info, "role") == Some("slave") {
            let advice = "connect to its primary: a replica refuses every claim";
            self.tell(Problem, "the server is a replica", advice);
        }
    }

    fn memory(&mut self, info: &str) {
        let number = |name| field(info, name).and_then(|text| text.parse::<u64>().ok());
        let policy = field(info, "maxmemory_policy").unwrap_or("not known");
        match number("maxmemory") {
            Some(0) => self.fine("the server evicts no keys: its memory has no limit of its own"),
            Some(limit) if policy == "noeviction" => {
                let used = number("used_memory").unwrap_or(0);
                if used > limit / 10 * 9 {
                    let found = format!("{used} of {limit} bytes of the server's memory are used");
                    self.tell(
                        Warning,
                        found,
                        "make room: a full server refuses every claim",
                    );
                } else {
                    self.fine("the server evicts no keys (maxmemory-policy = noeviction)");
                }
            }
            limit => {
                let limit = limit.map_or("unknown".to_owned(), |limit| limit.to_string());
                let found = format!(
                    "the server may evict live records (maxmemory = {limit}, maxmemory-policy = {policy})"
                );
                let advice = "set maxmemory-policy to noeviction: an evicted claim lets a second \
                    call run";
                self.tell(Warning, found, advice);
            }
        }
    }

    async fn persistence(&mut self, info: &str, may_ask: bool) {
        for (what, name) in [
            ("the append-only file", "aof_last_write_status"),
            ("the last snapshot", "rdb_last_bgsave_status"),
        ] {
            if field(info, name) == Some("err") {
                let found = format!("the server could not write {what}");
                self.tell(
                    Problem,
                    found,
                    "see to its disk: it refuses writes meanwhile (MISCONF)",
                );
            }
        }
        if field(info, "aof_enabled") == Some("1") {
            let policy = self.config("appendfsync", may_ask).await;
            match policy {
                Some(policy) if policy == "always" => {
                    self.fine("the append-only file is synced before every answer (fsync)");
                }
                Some(policy) => {
                    let found = format!(
                        "the append-only file is synced later (appendfsync = {policy}): a power \
                         failure may forget the latest records"
                    );
                    self.tell(Note, found, "set appendfsync to always");
                }
                None => {
                    let found =
                        "there is an append-only file, and it is not known when it is synced";
                    self.tell(Note, found, "ask `CONFIG GET appendfsync` on the server");
                }
            }
            return;
        }
        let advice = "set appendonly to yes";
        let snapshots = self.config("save", may_ask).await;
        match snapshots {
            Some(save) if save.is_empty() => {
                let found = "the server persists nothing: its restart forgets all records";
                self.tell(Warning, found, advice);
            }
            Some(_) => {
                let found = "the server persists snapshots only: its restart forgets all records since the last";
                self.tell(Warning, found, advice);
            }
            None => {
                let found = "there is no append-only file: a restart of the server forgets records";
                self.tell(Warning, found, advice);
            }
        }
    }

    async fn config(&mut self, name: &str, may_ask: bool) -> Option<String> {
        if !may_ask {
            return None;
        }
        let asked = config(&mut self.connection, name);
        in_time(self.deadline, asked).await.ok()
    }

    fn replicas(&mut self, info: &str) {
        if field(info, "role") == Some("slave") {
            return;
        }
        let replicas: Vec<&str> = (0..)
            .map_while(|number| field(info, &format!("slave{number}")))
            .collect();
        let mut online = 0;
        for replica in &replicas {
            if self.replica(replica) {
                online += 1;
            }
        }
        if online < self.wanted {
            let found = format!(
                "{online} of {} replicas that must have a claim are online",
                self.wanted
            );
            self.tell(
                Problem,
                found,
                "start more replicas, or want fewer: until then no call runs",
            );
        } else if replicas.is_empty() {
            let advice =
                "add one if the server's host may be lost, and wait for it with `replicas`";
            self.tell(Note, "the server has no replica", advice);
        }
        // Only there if the server is to refuse writes without replicas.
        if field(info, "min_slaves_good_slaves") == Some("0") {
            let found = "the server refuses writes without replicas (min-replicas-to-write), and none is in time";
            self.tell(
                Problem,
                found,
                "start replicas, or see to those that are connected",
            );
        }
    }

    /// Whether it is online.
    fn replica(&mut self, replica: &str) -> bool {
        let told = |name: &str| {
            let mut parts = replica.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(found, _)| *found == name).map(|found| found.1)
        };
        let state = told("state").unwrap_or_default();
        let lag = told("lag").and_then(|lag| lag.parse::<i64>().ok());
        let [host, port] = ["ip", "port"].map(|name| told(name).unwrap_or_default());
        let name = format!("the replica at {host}:{port}");
        if state != "online" {
            let found = format!("{name} is not online ({state})");
            let advice = "wait until it has its first copy, or see to it";
            self.tell(Warning, found, advice);
            return false;
        }
        match lag {
            Some(lag) if lag > LONGEST_LAG => {
                let found = format!("{name} has not answered for {lag} s");
                let advice = "see to the replica, and to the network between";
                self.tell(Warning, found, advice);
            }
            _ => self.fine(format!("{name} is online")),
        }
        true
    }

    async fn cluster(&mut self, info: &str, one_server: bool) {
        match self
            .ask::<Value>(cmd("CLUSTER").arg("INFO"))
            .await
            .map(texts)
        {
            Ok(states) => {
                for state in &states {
                    let cluster = field(state, "cluster_state").unwrap_or("not known");
                    let size = field(state, "cluster_size").unwrap_or("not known");
                    if cluster != "ok" {
                        let found = format!("the state of the cluster is {cluster}");
                        let advice =
                            "see `CLUSTER INFO`: keys of slots without a primary are refused";
                        self.tell(Problem, found, advice);
                    } else if one_server && size != "1" {
                        let found = format!(
                            "the server at port {} is one of the {size} primaries of a cluster",
                            field(info, "tcp_port").unwrap_or("?")
                        );
                        let advice = "use the client of a cluster: this one is refused most keys";
                        self.tell(Problem, found, advice);
                    } else {
                        self.fine(format!("the cluster is complete, with {size} primaries"));
                    }
                }
            }
            Err(error) => {
                let found =
                    format!("the server is part of a cluster, whose state is not known: {error}");
                self.tell(Note, found, "allow `+cluster|info`");
            }
        }
    }
}

/// Whether the server does not know who asks.
fn is_locked_out(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

/// More seconds than this without an answer are no jitter: replicas answer every second.
const LONGEST_LAG: i64 = 10;
