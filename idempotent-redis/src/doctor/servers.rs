//! Findings about the setup of servers.

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind, RedisError, Value, cmd};
use idempotent_runtime::store::Level::{Note, Problem, Warning};

use super::examination::Examination;
use crate::client::failure::is_forbidden;
use crate::client::info::{config, field, is_version_7, texts};
use crate::client::link::in_time;
use crate::record::removal::RemovalCommand;

impl<C: ConnectionLike> Examination<C> {
    /// Examines the servers. Returns whether a server answered. If none did, further questions are useless.
    pub(crate) async fn servers(&mut self, one_server: bool) -> bool {
        let info = match self.ask::<Value>(cmd("INFO").arg("everything")).await {
            Ok(reply) => texts(reply),
            Err(error) => {
                let found = format!("the server does not answer INFO: {error}");
                if is_forbidden(&error) {
                    let advice = "allow `+info`: without it eviction, version, role, persistence and replicas \
                        cannot be checked";
                    self.report(Warning, found, advice);
                    return true;
                }
                let advice = if is_locked_out(&error) {
                    "check the user's name and password"
                } else {
                    "check whether the server runs and can be reached"
                };
                self.report(Problem, found, advice);
                return false;
            }
        };
        for info in &info {
            self.version(info);
            self.role(info);
            self.memory(info);
            // With the client of a cluster any server may answer `CONFIG`.
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
        let removes = RemovalCommand::of_servers(&[info.to_owned()]);
        let removes = removes.command().unwrap_or("a script");
        let port = field(info, "tcp_port").unwrap_or("?");
        self.fine(format!(
            "{name} {version} (port {port}): it can claim by {claims}, and remove by {removes}"
        ));
    }

    fn role(&mut self, info: &str) {
        if field(info, "role") == Some("slave") {
            let advice = "connect to its primary: a replica refuses every claim";
            self.report(Problem, "the server is a replica", advice);
        }
    }

    fn memory(&mut self, info: &str) {
        let number = |name| field(info, name).and_then(|text| text.parse::<u64>().ok());
        let policy = field(info, "maxmemory_policy").unwrap_or("unknown");
        match number("maxmemory") {
            Some(0) => self.fine("the server evicts no keys: `maxmemory` is 0"),
            Some(limit) if policy == "noeviction" => {
                let used = number("used_memory").unwrap_or(0);
                if used > limit / 10 * 9 {
                    let found = format!("{used} of {limit} bytes of the server's memory are used");
                    self.report(
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
                self.report(Warning, found, advice);
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
                self.report(
                    Problem,
                    found,
                    "check its disk: until then it refuses writes (MISCONF)",
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
                         failure may lose the latest records"
                    );
                    self.report(Note, found, "set appendfsync to always");
                }
                None => {
                    let found =
                        "there is an append-only file, but this user cannot see when it is synced";
                    self.report(Note, found, "ask `CONFIG GET appendfsync` on the server");
                }
            }
            return;
        }
        let advice = "set appendonly to yes";
        let snapshots = self.config("save", may_ask).await;
        match snapshots {
            Some(save) if save.is_empty() => {
                let found = "the server persists nothing: a restart loses all records";
                self.report(Warning, found, advice);
            }
            Some(_) => {
                let found = "the server persists snapshots only: a restart loses all records since the last";
                self.report(Warning, found, advice);
            }
            None => {
                let found =
                    "there is no append-only file: a restart of the server may lose records";
                self.report(Warning, found, advice);
            }
        }
    }

    async fn config(&mut self, name: &str, may_ask: bool) -> Option<String> {
        if !may_ask {
            return None;
        }
        let answer = config(&mut self.connection, name);
        in_time(self.deadline, answer).await.ok()
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
                "{online} of the {} replicas that a write waits for are online",
                self.wanted
            );
            self.report(
                Problem,
                found,
                "start more replicas, or lower `replicas`: until then no call runs",
            );
        } else if replicas.is_empty() {
            let advice =
                "add a replica if the server's host may fail, and wait for it with `replicas`";
            self.report(Note, "the server has no replica", advice);
        }
        // Only present if `min-replicas-to-write` is set.
        if field(info, "min_slaves_good_slaves") == Some("0") {
            let found = "the server refuses writes without replicas (min-replicas-to-write), and none is in sync";
            self.report(
                Problem,
                found,
                "start replicas, or check the connected ones",
            );
        }
    }

    /// Examines one replica. Returns whether it is online.
    fn replica(&mut self, replica: &str) -> bool {
        let value = |name: &str| {
            let mut parts = replica.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(found, _)| *found == name).map(|found| found.1)
        };
        let state = value("state").unwrap_or_default();
        let lag = value("lag").and_then(|lag| lag.parse::<i64>().ok());
        let [host, port] = ["ip", "port"].map(|name| value(name).unwrap_or_default());
        let name = format!("the replica at {host}:{port}");
        if state != "online" {
            let found = format!("{name} is not online ({state})");
            let advice = "wait until its first synchronisation ends, or check the replica";
            self.report(Warning, found, advice);
            return false;
        }
        match lag {
            Some(lag) if lag > LONGEST_LAG => {
                let found = format!("{name} has not answered for {lag} s");
                let advice = "check the replica and the network between them";
                self.report(Warning, found, advice);
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
                    let cluster = field(state, "cluster_state").unwrap_or("unknown");
                    let size = field(state, "cluster_size").unwrap_or("unknown");
                    if cluster != "ok" {
                        let found = format!("the state of the cluster is {cluster}");
                        let advice =
                            "see `CLUSTER INFO`: keys of slots without a primary are refused";
                        self.report(Problem, found, advice);
                    } else if one_server && size != "1" {
                        let found = format!(
                            "the server at port {} is one of the {size} primaries of a cluster",
                            field(info, "tcp_port").unwrap_or("?")
                        );
                        let advice = "write `redis-cluster://`, or use the client of a cluster: other nodes have most keys";
                        self.report(Problem, found, advice);
                    } else {
                        self.fine(format!("the cluster is complete, with {size} primaries"));
                    }
                }
            }
            Err(error) => {
                let found = format!(
                    "the server is part of a cluster, but its state cannot be read: {error}"
                );
                self.report(Note, found, "allow `+cluster|info`");
            }
        }
    }
}

/// Whether the server refused the login.
fn is_locked_out(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

/// The longest normal time without an answer, in seconds. Replicas answer every second.
const LONGEST_LAG: i64 = 10;
