//! Making the connection, and what the server is asked before it is trusted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{RedisError, RedisResult, Value, cmd};
use tokio::time::timeout;

use super::connection::RedisConnection;
use super::failure::kind_of;
use super::filters::Filters;
use super::removal::Removal;
use super::replicas::{self, Replicas};
use super::store::RedisStore;
use super::tls::{Certificates, ClientCertificate};
use super::topology::Topology;
use super::url::{Address, refused};
use crate::store::{Durability, StoreError, StoreErrorKind};

/// Settings of a [`RedisStore`] that is to be connected.
///
/// ```no_run
/// # use idempotent_runtime as idempotence;
/// # async fn example() -> Result<(), idempotence::StoreError> {
/// use idempotence::RedisStore;
///
/// let store = RedisStore::options()
///     .allow_eviction(true)
///     .connect("redis://127.0.0.1")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RedisOptions {
    allow_eviction: bool,
    replicas: Replicas,
    certificates: Certificates,
}

impl RedisOptions {
    /// Accepts a server that may drop a live record when its memory is full.
    ///
    /// A dropped record lets a second call run: only for servers where that does no harm.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.allow_eviction = allow;
        self
    }

    /// Counts a write only when this many replicas have it, so that a fail-over to one of them
    /// forgets no claim and no result. Default: 0, the server's own word is enough.
    ///
    /// Claims, renewals and completions wait for the replicas, by `WAIT` in the same round trip. With
    /// fewer than wanted the claim is taken back and the body does not run; a claim that cannot be
    /// renewed is lost when its lease ends, and a result that cannot be recorded is sent again until
    /// then. A release does not wait: if it is lost, the key is taken until the lease ends, and no
    /// more. So it may be with a claim of a call that is dropped while it waits: put on another
    /// connection than its withdrawal, it may come after that, and then stands until its lease ends.
    ///
    /// `WAIT` holds up its connection, so [`connect`](Self::connect) makes some more when they are
    /// needed, up to 16, for these writes alone; in a cluster up to 16 to each primary, and 16 writes to
    /// one that hangs hold up those to the others. A connection of the caller's own is held up itself:
    /// then all other calls of the store wait behind each write, and a response timeout of its client
    /// that is shorter than the [`replica_timeout`](Self::replica_timeout) cuts `WAIT` off.
    ///
    /// What this cannot promise: `WAIT` does not say *which* replicas have a write. A fail-over that
    /// promotes another one forgets it: want all of them, or have the fail-over take the one that is
    /// furthest, as Sentinel and Cluster try to. In a cluster they are the replicas of the key's own
    /// primary.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas.wanted = replicas;
        self
    }

    /// Sets how long one write waits for the [`replicas`](Self::replicas). Default: 200 ms.
    ///
    /// The first try of a call has a quarter of the
    /// [deadline](crate::Builder::deadline) of the handle: 250 ms unless told otherwise. A longer wait is
    /// cut off there, so that the call knows less about what went wrong.
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.replicas.timeout = timeout;
        self
    }

    /// Trusts the servers, and sentinels, whose certificates these ones have signed: PEM, one or many.
    ///
    /// They take the place of those that the system trusts. Needs a URL of TLS, such as `rediss://`, and
    /// for a cluster the feature `redis-rustls`.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.roots = Some(pem.into());
        self
    }

    /// Shows this certificate to servers that ask for one: PEM, with the chain if there is one, and its
    /// private key, in PEM of PKCS #8. Needs a URL of TLS, such as `rediss://`, and for a cluster the
    /// feature `redis-rustls`.
    pub fn client_certificate(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some(ClientCertificate {
            chain: certificate_pem.into(),
            key: key_pem.into(),
        });
        self
    }

    /// Connects to the server at `url`: see [`RedisStore::connect`].
    ///
    /// `?allow_eviction=…`, `?replicas=…` and `?replica_timeout=…` in the URL have the last word.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore::connect`].
    pub async fn connect(mut self, url: &str) -> Result<RedisStore, StoreError> {
        let address = Address::parse(url)?;
        self.allow_eviction = address.allow_eviction.unwrap_or(self.allow_eviction);
        self.replicas = Replicas {
            wanted: address.replicas.unwrap_or(self.replicas.wanted),
            timeout: address.replica_timeout.unwrap_or(self.replicas.timeout),
        };
        let topology = Topology::new(address, self.certificates.clone(), self.replicas)?;
        let topology = Arc::new(topology);
        let connection = RedisConnection::to(Arc::clone(&topology));
        let what = format!("cannot connect to {topology}");
        let checked = async {
            let connected = connection.connect().await;
            connected.map_err(|error| failed(&what, error))?;
            self.check(connection, &what).await
        };
        let store = in_time(checked, &topology.to_string()).await?;
        Ok(store.listening_to(topology))
    }

    /// Makes a store on a connection of the caller's own: see [`RedisStore::from_connection`].
    ///
    /// Certificates are that connection's own: those given here are ignored.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore::from_connection`].
    pub async fn from_connection<C>(self, connection: C) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let what = "the server does not answer INFO";
        in_time(self.check(connection, what), "the server").await
    }

    async fn check<C>(&self, mut connection: C, what: &str) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let info = match cmd("INFO").query_async::<Value>(&mut connection).await {
            Ok(reply) => texts(reply),
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(
                    %error,
                    "INFO is not allowed: it is not known whether the server evicts keys, \
                     and claims are made by a script"
                );
                Vec::new()
            }
            Err(error) => return Err(failed(what, error)),
        };
        info.iter().try_for_each(|info| refuse_sentinel(info))?;
        if !self.allow_eviction {
            info.iter().try_for_each(|info| refuse_eviction(info))?;
        }
        let native_claim = !info.is_empty() && info.iter().all(|info| is_version_7(info));
        let durability = if self.replicas.wanted > 0 {
            let checked = self.replicas.check(&mut connection, &info).await;
            checked.map_err(|error| failed("the server does not let this user WAIT", error))?;
            Durability::Replicated {
                replicas: self.replicas.wanted,
            }
        } else {
            replicas::of_server(&mut connection, &info).await
        };
        let store = RedisStore::new(connection, native_claim, durability)
            .removing_by(Removal::of_servers(&info))
            .filtering_by(Filters::of_servers(&info))
            .waiting_for(self.replicas);
        if store.failure.sends_once && info.iter().any(|info| mode(info) == Some("cluster")) {
            tracing::warn!(
                "this server is one node of a cluster, and refuses the keys of the others: \
                 write `redis-cluster://`"
            );
        }
        Ok(store)
    }
}

/// How long it takes at most until [`RedisStore::connect`] gives up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

async fn in_time<T>(
    connecting: impl Future<Output = Result<T, StoreError>>,
    server: &str,
) -> Result<T, StoreError> {
    timeout(CONNECT_DEADLINE, connecting)
        .await
        .unwrap_or_else(|_| {
            let message = format!("no answer from {server} within {CONNECT_DEADLINE:?}");
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
}

/// How the server is set up. Of a cluster's client it is not known which server answers.
pub(super) async fn config<C: ConnectionLike>(
    connection: &mut C,
    name: &str,
) -> RedisResult<String> {
    let mut ask = cmd("CONFIG");
    ask.arg("GET").arg(name);
    let (_, value): (String, String) = ask.query_async(connection).await?;
    Ok(value)
}

/// The answers to `INFO`: one of a server, one per node of a cluster.
pub(super) fn texts(reply: Value) -> Vec<String> {
    match reply {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => vec![text],
        Value::Map(nodes) => nodes
            .into_iter()
            .flat_map(|(_, info)| texts(info))
            .collect(),
        _ => Vec::new(),
    }
}

pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// `standalone`, `cluster` or `sentinel`. Valkey has a name of its own for it.
fn mode(info: &str) -> Option<&str> {
    field(info, "redis_mode").or_else(|| field(info, "server_mode"))
}

fn refuse_sentinel(info: &str) -> Result<(), StoreError> {
    if mode(info) == Some("sentinel") {
        return Err(refused(
            "this server is a sentinel and keeps no records: write `redis-sentinel://host/master`",
        ));
    }
    Ok(())
}

fn refuse_eviction(info: &str) -> Result<(), StoreError> {
    let Some(policy) = field(info, "maxmemory_policy") else {
        tracing::warn!("INFO names no maxmemory_policy: the server may evict keys");
        return Ok(());
    };
    let limit = field(info, "maxmemory").unwrap_or("unknown");
    if policy == "noeviction" || limit == "0" {
        return Ok(());
    }
    let message = format!(
        "the server may evict live records (maxmemory = {limit}, maxmemory-policy = {policy}), and \
         an evicted claim lets a second call run: set maxmemory-policy to noeviction, or accept it \
         with `?allow_eviction=true` in the URL or `RedisStore::options().allow_eviction(true)`"
    );
    Err(StoreError::new(StoreErrorKind::Misconfigured, message))
}

/// Whether the server knows `SET … NX GET`. Valkey says 7.2.4 here, whatever its own version is.
pub(super) fn is_version_7(info: &str) -> bool {
    field(info, "redis_version")
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok())
        .is_some_and(|major| major >= 7)
}

/// Whether the command is kept from this user, by an ACL or by being renamed.
pub(super) fn is_forbidden(error: &RedisError) -> bool {
    let forbidden = error.code() == Some("NOPERM") || error.code() == Some("ERR");
    forbidden && kind_of(error) == StoreErrorKind::Misconfigured
}

fn failed(what: &str, error: RedisError) -> StoreError {
    let what = what.to_owned();
    StoreError::new(kind_of(&error), Failed { what, error })
}

/// An error that no other try will mend, whatever the client calls it.
pub(super) fn misconfigured(what: &str, error: RedisError) -> StoreError {
    let what = what.to_owned();
    StoreError::new(StoreErrorKind::Misconfigured, Failed { what, error })
}

/// An error of the client, and what was tried.
#[derive(Debug)]
struct Failed {
    what: String,
    error: RedisError,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicting_server_is_refused() {
        let info = |limit: &str, policy: &str| {
            format!(
                "# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_human:1M\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        for accepted in [
            info("0", "allkeys-lru"),
            info("1048576", "noeviction"),
            String::new(),
        ] {
            refuse_eviction(&accepted).expect(&accepted);
        }
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru"] {
            let error = refuse_eviction(&info("1048576", policy)).expect_err(policy);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            let text = format!("{error:?}");
            for part in ["1048576", policy, "maxmemory-policy", "allow_eviction"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn versions_are_read() {
        for (info, is_7) in [
            ("# Server\r\nredis_version:7.0.15\r\n", true),
            ("redis_version:10.1.0", true),
            ("redis_version:6.2.14\r\n", false),
            ("redis_version:unstable\r\n", false),
            ("", false),
        ] {
            assert_eq!(is_version_7(info), is_7, "{info}");
        }
    }

    #[test]
    fn every_node_of_a_cluster_is_read() {
        let node = |name: &str| {
            (
                Value::SimpleString(name.to_owned()),
                Value::BulkString(name.into()),
            )
        };
        assert_eq!(texts(Value::Map(vec![node("a"), node("b")])), ["a", "b"]);
        assert!(texts(Value::Nil).is_empty());
    }
}
