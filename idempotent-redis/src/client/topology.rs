//! The servers of the records: one server, the master behind sentinels, or a cluster.

use std::fmt;

use ::redis::aio::PubSub;
use ::redis::{Client, ConnectionAddr, RedisResult};
use idempotent_runtime::store::StoreError;

use crate::client::cluster::Cluster;
use crate::client::failure::bad_url;
use crate::client::link::{self, CONNECT_TIMEOUT, Link, in_time, unsent, without_password};
use crate::client::replicas::Replicas;
use crate::client::sentinel::Sentinels;
use crate::client::tls::Certificates;
use crate::client::url::{Address, Host, Servers};

#[expect(clippy::large_enum_variant, reason = "a store has one")]
pub(crate) enum Topology {
    Server(Client),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Topology {
    /// `replicas`: the replicas for which writes will wait.
    pub(crate) fn new(
        address: Address,
        certificates: Certificates,
        replicas: Replicas,
    ) -> Result<Self, StoreError> {
        let Address {
            place, tls, login, ..
        } = address;
        certificates.check(tls)?;
        let info = |address: ConnectionAddr| {
            let info = link::connection_info(address, login.clone());
            info.map_err(|_| bad_url("names no address"))
        };
        Ok(match place {
            Servers::Socket(path) => {
                Self::Server(certificates.client(info(ConnectionAddr::Unix(path))?)?)
            }
            Servers::Server(host) => {
                Self::Server(certificates.client(info(link::address(host, tls))?)?)
            }
            Servers::Cluster(hosts) => {
                let nodes = hosts.into_iter().map(|host| info(link::address(host, tls)));
                let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
                Self::Cluster(Cluster::new(nodes, &certificates, replicas)?)
            }
            Servers::Sentinels {
                sentinels,
                master,
                credentials,
            } => {
                let sentinels =
                    Sentinels::new(sentinels, credentials, master, tls, login, certificates)?;
                Self::Sentinels(sentinels)
            }
        })
    }

    /// Makes a connection. Finds the current master, or the current owners of the slots.
    pub(crate) async fn connect(&self) -> RedisResult<Link> {
        let connecting = async {
            match self {
                Self::Server(client) => link::connect(client).await.map(Link::Server),
                Self::Sentinels(sentinels) => {
                    let master = in_time(CONNECT_TIMEOUT, sentinels.connect()).await;
                    master.map(|(_, connection)| Link::Server(connection))
                }
                Self::Cluster(cluster) => cluster.connect().await.map(Link::Cluster),
            }
        };
        connecting.await.map_err(without_password).map_err(unsent)
    }

    /// One node of a cluster.
    pub(crate) fn node(&self, node: &Host) -> Option<Self> {
        match self {
            Self::Cluster(cluster) => cluster.node(node).map(Self::Server),
            _ => None,
        }
    }

    /// Makes a connection for subscriptions.
    pub(crate) async fn connect_pubsub(&self) -> RedisResult<PubSub> {
        let connecting = async {
            match self {
                Self::Server(client) => client.get_async_pubsub().await,
                Self::Sentinels(sentinels) => sentinels.connect().await?.0.get_async_pubsub().await,
                Self::Cluster(cluster) => cluster.connect_pubsub().await,
            }
        };
        connecting.await.map_err(without_password)
    }

    pub(crate) fn db(&self) -> i64 {
        match self {
            Self::Server(client) => client.get_connection_info().redis_settings().db(),
            Self::Sentinels(sentinels) => sentinels.db(),
            Self::Cluster(_) => 0,
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(client) => write!(f, "redis {}", client.get_connection_info().addr()),
            Self::Sentinels(sentinels) => f.write_str(&sentinels.describe()),
            Self::Cluster(cluster) => f.write_str(&cluster.describe()),
        }
    }
}
