//! The options of a Redis store, and connecting it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;
use idempotent_runtime::port::redis::Limits;
use idempotent_runtime::store::{Durability, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout_at};

use crate::checks::{self, refuse_eviction, refuse_sentinel};
use crate::client::connection::{RETRY_DELAY, RedisConnection};
use crate::client::connection_like::{StoreClient, place_of, sends_once};
use crate::client::failure::{is_forbidden, of_connection};
use crate::client::info::{is_one_server, mode, texts};
use crate::client::link::unsent;
use crate::client::listener::Listener;
use crate::client::reason::is_unanswered;
use crate::client::replicas::Replicas;
use crate::client::tls::{Certificates, ClientCertificate};
use crate::client::topology::Topology;
use crate::client::url::Address;
use crate::send::compose::SendSettings;
use crate::send::sender::Sender;
use crate::store::RedisStore;

/// Settings for connecting a [`RedisStore`].
///
/// ```no_run
/// # async fn example() -> Result<(), idempotence::StoreError> {
/// use idempotence::RedisStore;
///
/// let store = RedisStore::options()
///     .allow_eviction(true)
///     .connect("redis://127.0.0.1")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct RedisOptions {
    allow_eviction: bool,
    replicas: Replicas,
    batch: bool,
    batch_above: usize,
    certificates: Certificates,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            allow_eviction: false,
            replicas: Replicas::default(),
            batch: true,
            batch_above: Limits::DEFAULT.inline,
            certificates: Certificates::default(),
        }
    }
}

impl RedisOptions {
    /// Accepts a server that may evict live records when its memory is full.
    ///
    /// An evicted record lets a second call run. Use this option only if a second run does no harm.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.allow_eviction = allow;
        self
    }

    /// Sets how many replicas must acknowledge a write, so that a fail-over to one of them loses no claim and no result.
    /// Default: 0, so the primary's acknowledgement is enough.
    ///
    /// Claims, renewals, completions, tokens, counts and members added to seen-sets wait for the replicas, with `WAIT` in the
    /// same round trip. If too few replicas acknowledge a claim, the store takes it back and the body does not run. A claim that cannot be renewed is lost when its
    /// lease ends. A result that cannot be recorded is sent again until then. A release does not wait: if a fail-over loses it,
    /// the key stays taken until the lease ends. The same is possible for a claim of a call that is dropped while it waits,
    /// because the withdrawal uses another connection and may arrive first.
    ///
    /// `WAIT` blocks its connection. So the store makes more connections for these writes when it needs them: up to 16 for
    /// single writes, and, for each tokio runtime, up to 16 for batches and 16 for batches of renewals. In a cluster each primary
    /// has so many connections of its own, and up to 16 more for writes that are repeated. On the caller's own
    /// connection each write blocks all other calls of the store, and a response timeout of the client that is shorter than
    /// [`replica_timeout`](Self::replica_timeout) interrupts `WAIT`.
    ///
    /// `WAIT` does not say *which* replicas have a write, and a fail-over to another replica loses it. So wait for all
    /// replicas, or make sure that the fail-over promotes the most advanced replica, as Sentinel and Cluster try to. In a
    /// cluster the replicas of the key's primary count.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas.wanted = replicas;
        self
    }

    /// Sets how long one write waits for the [`replicas`](Self::replicas). Default: 200 ms.
    ///
    /// Keep it below the time of a call's first attempt, which is a quarter of the handle's
    /// [deadline](idempotent_runtime::Builder::deadline), by default 250 ms. A longer wait is interrupted, and then the call cannot report
    /// the cause.
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.replicas.timeout = timeout;
        self
    }

    /// Sets whether operations that wait for the server go together in one request. Default: `true`.
    ///
    /// Operations whose callers run at the same time go in one pipeline, and operations of one script share its call. With many
    /// concurrent calls this saves most of the work of the server and of the network. An operation waits for an answer to others
    /// only if eight pipelines have no answer (four with [`replicas`](Self::replicas)), so batches add no round trip. Each
    /// operation keeps its own answer, its own deadline and its own cancellation.
    ///
    /// In a cluster the operations of each node gather, and go straight to this node. An operation that the node redirects is
    /// sent again alone, to the node that it names, or by the client of the cluster. With `false` this client sends everything.
    /// It also does in a cluster of one node that announces no name.
    ///
    /// On a connection of a client that this crate does not know, each operation is its own request. A batch of writes that wait
    /// for [`replicas`](Self::replicas) waits for them once.
    pub fn batch(mut self, batch: bool) -> Self {
        self.batch = batch;
        self
    }

    /// Sets how many operations may be on their way before others gather. Default: 16.
    ///
    /// Few concurrent operations are answered sooner if each is its own request, as long as the machines have idle processors.
    /// A smaller number saves more of their work. In a cluster the number is for each node. Writes that wait for
    /// [`replicas`](Self::replicas) gather above two.
    pub fn batch_above(mut self, operations: usize) -> Self {
        self.batch_above = operations;
        self
    }

    /// Trusts servers and sentinels with a certificate of these authorities, in PEM, instead of the system's authorities.
    ///
    /// Needs a URL with TLS, such as `rediss://`, and for a cluster the feature `redis-rustls`.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.roots = Some(pem.into());
        self
    }

    /// Sets the certificate of this client, for servers that require one: the chain in PEM, and the private key in PEM of PKCS #8.
    ///
    /// Needs a URL with TLS, such as `rediss://`, and for a cluster the feature `redis-rustls`.
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
    /// `?allow_eviction=…`, `?batch=…`, `?batch_above=…`, `?replicas=…` and `?replica_timeout=…` in the URL override the options.
    ///
    /// # Errors
    ///
    /// As [`RedisStore::connect`].
    pub async fn connect(mut self, url: &str) -> Result<RedisStore, StoreError> {
        let address = Address::parse(url)?;
        let of_url = &address.options;
        self.allow_eviction = of_url.allow_eviction.unwrap_or(self.allow_eviction);
        self.batch = of_url.batch.unwrap_or(self.batch);
        self.batch_above = of_url.batch_above.unwrap_or(self.batch_above);
        self.replicas = Replicas {
            wanted: of_url.replicas.unwrap_or(self.replicas.wanted),
            timeout: of_url.replica_timeout.unwrap_or(self.replicas.timeout),
        };
        let topology = Topology::new(address, self.certificates.clone(), self.replicas)?;
        let topology = Arc::new(topology);
        let connection = if self.batch {
            RedisConnection::straight_to(Arc::clone(&topology))
        } else {
            RedisConnection::for_topology(Arc::clone(&topology))
        };
        let place = topology.to_string();
        let ends = Instant::now() + CONNECT_DEADLINE;
        let connected = connect_repeatedly(&connection, ends).await;
        connected.map_err(|error| of_connection(error, &place))?;
        let checked = self.check(connection.clone(), &place);
        let (info, durability) = connect_in_time(checked, ends, &place).await?;
        let durability = match (durability, &*topology) {
            // After a fail-over the disk of the old server does not count.
            (Durability::Fsync, Topology::Sentinels(_)) => Durability::Server,
            (durability, _) => durability,
        };
        let sender = Sender::with_more_connections(connection, self.settings(&info));
        let listener = Some(Arc::new(Listener::new(topology)));
        Ok(RedisStore::new(sender, &info, durability, listener))
    }

    /// Makes a store on the caller's own connection: see [`RedisStore::from_connection`].
    ///
    /// The certificates of these options are not used.
    ///
    /// # Errors
    ///
    /// As [`RedisStore::from_connection`].
    pub async fn from_connection<C>(self, connection: C) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let place = place_of(&connection);
        let checked = self.check(connection.clone(), &place);
        let ends = Instant::now() + CONNECT_DEADLINE;
        let (info, durability) = connect_in_time(checked, ends, &place).await?;
        let sender = Sender::new(connection, self.settings(&info));
        Ok(RedisStore::new(sender, &info, durability, None))
    }

    fn settings(&self, info: &[String]) -> SendSettings {
        SendSettings {
            replicas: self.replicas,
            batch_above: self.batch.then_some(self.batch_above),
            has_one_server: is_one_server(info),
        }
    }

    /// Checks the servers. Returns their answers to `INFO`, and the durability of a write.
    async fn check<C: StoreClient>(
        &self,
        mut connection: C,
        place: &str,
    ) -> Result<(Vec<String>, Durability), StoreError> {
        let (info, scripts) = checks::first_questions(&mut connection)
            .await
            .map_err(|error| of_connection(error, place))?;
        let info = match info {
            Ok(reply) => texts(reply),
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(
                    target: "idempotence", %error,
                    "INFO is not allowed (allow `+info`): the server may evict keys unnoticed, and claims \
                     need a script"
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
        if sends_once(&connection) && info.iter().any(|info| mode(info) == Some("cluster")) {
            tracing::warn!(
                target: "idempotence", "this server is one node of a cluster and refuses keys of other nodes: write \
                 `redis-cluster://`"
            );
        }
        Ok((info, durability))
    }
}

impl RedisStore {
    /// Connects to the Redis at `url`:
    ///
    /// * `redis://user:password@host:6379/0`: one server;
    /// * `redis+unix:///path?user=…&pass=…&db=0`: one server at a socket;
    /// * `redis-cluster://user:password@host,host:6379`: a cluster, found through any of these nodes;
    /// * `redis-sentinel://user:password@host,host:26379/master/0`: the server that sentinels call `master`. The sentinels have
    ///   separate credentials, `?sentinel_user=…&sentinel_pass=…`, or none;
    /// * `rediss://`, `rediss-cluster://` and `rediss-sentinel://`: the same with TLS. They need the feature `redis-rustls` or
    ///   `redis-native-tls`; with both, rustls is used. The certificates must be for the names that a cluster or sentinels announce.
    ///
    /// Ports are optional, IPv6 addresses are in brackets, and `@ : / ? # %` in names and passwords are percent-encoded. The
    /// option `?protocol=3` uses RESP3.
    ///
    /// All calls share one connection. The store replaces it when it breaks, when its server became a replica, and when a reply
    /// is overdue: the caller has given up, and a second later there is still no reply. A server that may evict keys is
    /// refused, because an evicted claim lets a second call run; `?allow_eviction=true` accepts it.
    ///
    /// In a cluster there are two connections to each master. Operations on records go straight over the second. The client of
    /// the cluster uses the first: it sends an operation if its master is not known, not connected or not ready. A third is made
    /// when renewals wait behind other operations.
    ///
    /// Connecting costs the handshake and one round trip. It needs a second round trip if there is an append-only file
    /// (`CONFIG GET`) or if writes wait for replicas (`WAIT`). Behind sentinels it also needs a connection to a sentinel and two
    /// round trips.
    ///
    /// Operations that wait for the server go together in one request: see [`RedisOptions::batch`]. The first renewal of a lease
    /// while such a request is in flight opens a connection for these renewals, so that no other operation delays them.
    ///
    /// The first replay of a result of 16 KiB or more opens a connection for all large replays, so that they do not delay
    /// other calls; at most four are in flight. (Redis 7 and newer.)
    ///
    /// The first call that waits for a key opens a connection for subscriptions. All waiting calls share it, and it is
    /// closed with the last clone of the store. A subscription costs one round trip, or none if the key already has a
    /// subscription.
    ///
    /// # Errors
    ///
    /// Within five seconds, if the URL is invalid or needs a feature that this build lacks, if the server cannot be reached,
    /// refuses the credentials, does not let this user run scripts, or may evict keys. The text says where, why, and what to
    /// do. It never contains the password.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        RedisOptions::default().connect(url).await
    }

    /// Returns the default options.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }
}

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Makes a store on the caller's own connection.
    ///
    /// Use a connection that reconnects, such as a [`RedisConnection`] on your client: a plain
    /// [`MultiplexedConnection`](::redis::aio::MultiplexedConnection) never works again after it broke. This does the checks of
    /// [`connect`](RedisStore::connect), on every node of a cluster, in one or two round trips. Whether the user may run
    /// scripts is not checked on a cluster, nor for a client that this crate does not know: there the first call fails if not.
    ///
    /// The client of a cluster, and every client that this crate does not know, may repeat a command. So its refusals are
    /// [`StoreErrorKind::Unknown`]. The store has no notifications: calls that wait for a key poll.
    ///
    /// # Errors
    ///
    /// Within five seconds, if the server does not answer, may evict keys, or does not let this user run scripts.
    pub async fn from_connection(connection: C) -> Result<Self, StoreError> {
        RedisOptions::default().from_connection(connection).await
    }
}

/// The longest time that [`RedisStore::connect`] takes.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Connects. A machine that starts many processes is slow, so an attempt without an answer is repeated until the time ends.
async fn connect_repeatedly(connection: &RedisConnection, ends: Instant) -> RedisResult<()> {
    let mut unanswered = unsent(io::Error::from(io::ErrorKind::TimedOut).into());
    let repeated = async {
        loop {
            match connection.connect().await {
                Err(error) if is_unanswered(&error) => unanswered = error,
                connected => return connected,
            }
            sleep(RETRY_DELAY).await;
        }
    };
    let connected = timeout_at(ends, repeated).await;
    connected.unwrap_or(Err(unanswered))
}

/// Bounds the time that connecting takes.
async fn connect_in_time<T>(
    connecting: impl Future<Output = Result<T, StoreError>>,
    ends: Instant,
    place: &str,
) -> Result<T, StoreError> {
    timeout_at(ends, connecting).await.unwrap_or_else(|_| {
        let reason = format!("gave no answer within {CONNECT_DEADLINE:?}");
        Err(StoreError::new(StoreErrorKind::Unknown, "timed out")
            .reason(reason)
            .place(place.to_owned()))
    })
}
