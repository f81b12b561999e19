//! Making the connection of a store, and the store on it.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use tokio::time::timeout;

use super::checks::{self, refuse_eviction, refuse_sentinel};
use super::connection::{RedisConnection, place_of};
use super::executor::Executor;
use super::failure::{is_forbidden, of_connection};
use super::info::{mode, texts};
use super::replicas::Replicas;
use super::store::RedisStore;
use super::tls::{Certificates, ClientCertificate};
use super::topology::Topology;
use super::url::Address;
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
        let place = topology.to_string();
        let checked = async {
            let connected = connection.connect().await;
            connected.map_err(|error| of_connection(error, &place))?;
            self.check(connection, &place).await
        };
        let store = in_time(checked, &place).await?;
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
        let place = place_of(&connection);
        in_time(self.check(connection, &place), &place).await
    }

    async fn check<C>(&self, mut connection: C, place: &str) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (info, scripts) = checks::first_questions(&mut connection)
            .await
            .map_err(|error| of_connection(error, place))?;
        let info = match info {
            Ok(reply) => texts(reply),
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(
                    %error,
                    "INFO is not allowed: it is not known whether the server evicts keys, \
                     and claims are made by a script"
                );
                Vec::new()
            }
            Err(error) => return Err(of_connection(error, place)),
        };
        info.iter()
            .try_for_each(|info| refuse_sentinel(info, place))?;
        scripts.map_err(|error| of_connection(error, place))?;
        if !self.allow_eviction {
            info.iter()
                .try_for_each(|info| refuse_eviction(info, place))?;
        }
        let durability = if self.replicas.wanted > 0 {
            let checked = self.replicas.check(&mut connection, &info).await;
            checked.map_err(|error| of_connection(error, place))?;
            Durability::Replicated {
                replicas: self.replicas.wanted,
            }
        } else {
            checks::durability(&mut connection, &info).await
        };
        let executor = Executor::new(connection, self.replicas);
        if executor.sends_once() && info.iter().any(|info| mode(info) == Some("cluster")) {
            tracing::warn!(
                "this server is one node of a cluster, and refuses the keys of the others: \
                 write `redis-cluster://`"
            );
        }
        Ok(RedisStore::new(executor, &info, durability))
    }
}

impl RedisStore {
    /// Connects to the Redis at `url`:
    ///
    /// * `redis://user:password@host:6379/0`, one server, and `redis+unix:///path?user=…&pass=…&db=0`;
    /// * `redis-cluster://user:password@host,host:6379`, a cluster, found by any of these nodes;
    /// * `redis-sentinel://user:password@host,host:26379/master/0`, the server that sentinels call
    ///   `master`; they have credentials of their own, `?sentinel_user=…&sentinel_pass=…`, or none;
    /// * `rediss://`, `rediss-cluster://` and `rediss-sentinel://`, the same by TLS, with the feature
    ///   `redis-rustls` or `redis-native-tls`; with both it is rustls. The names that a cluster or
    ///   sentinels announce must be those of the certificates.
    ///
    /// Ports may be left out, IPv6 addresses are in brackets, and `@ : / ? # %` in names and passwords
    /// are percent-encoded. The option `?protocol=3` speaks RESP3.
    ///
    /// The connection is shared by all calls, and made anew when it breaks, when its server became a
    /// replica, and when a reply that a caller gave up waiting for is overdue for another second. A
    /// server that may evict keys is refused, because an evicted claim lets a second call run; a cache
    /// server can be used all the same with `?allow_eviction=true`. Costs the connection's handshake
    /// and one round trip; a second one where there is an append-only file (`CONFIG GET`), or where
    /// replicas are waited for (`WAIT`); behind sentinels also a connection to one of them and two round
    /// trips.
    ///
    /// The first replay of a result that was found to be large (16 KiB) opens another connection, for all such replays: so they
    /// hold up each other, and no other call; four are under way at a time. (Redis 7 and newer.)
    ///
    /// The first call that waits for a key opens a second connection, to listen; it is shared, too,
    /// and ends with the last clone of the store. To listen costs one round trip on it, and none for
    /// a key that others listen to already.
    ///
    /// # Errors
    ///
    /// Within five seconds, if the URL makes no sense or needs a feature that this build has not, the
    /// server is not reached, refuses the credentials, or may evict keys. The text never contains the
    /// password.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        RedisOptions::default().connect(url).await
    }

    /// Settings for a store that is to be connected.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }
}

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Makes a store on a connection of the caller's own.
    ///
    /// Give it one that heals itself, such as a [`RedisConnection`] on a client of your own: a plain
    /// [`MultiplexedConnection`](::redis::aio::MultiplexedConnection) fails for ever once it broke. Performs the checks of
    /// [`connect`](RedisStore::connect), on every node of a cluster. Costs one round trip, or two as
    /// there.
    ///
    /// A cluster's client, and any that this crate does not know, may send a command twice by
    /// itself, so its refusals are passed on as [`StoreErrorKind::Unknown`].
    /// A store made by this gives no hints: calls that wait for a key find out by asking again.
    ///
    /// # Errors
    ///
    /// If the server does not answer within five seconds, or may evict keys.
    pub async fn from_connection(connection: C) -> Result<Self, StoreError> {
        RedisOptions::default().from_connection(connection).await
    }
}

/// How long it takes at most until [`RedisStore::connect`] gives up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

async fn in_time<T>(
    connecting: impl Future<Output = Result<T, StoreError>>,
    place: &str,
) -> Result<T, StoreError> {
    timeout(CONNECT_DEADLINE, connecting)
        .await
        .unwrap_or_else(|_| {
            let reason = format!("gave no answer within {CONNECT_DEADLINE:?}");
            Err(StoreError::new(StoreErrorKind::Unknown, "timed out")
                .reason(reason)
                .place(place.to_owned()))
        })
}
