//! The attribute, and the same transactions by hand in the same client, on a cluster of etcd.

use std::time::Duration;

use http::uri::PathAndQuery;
use idempotence::store::Bytes;
use idempotence::{Error, EtcdStore, Idempotency, idempotent};
use idempotence_test_servers::EtcdCluster;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use self::wire::{Compare, Grant, Method, Op, Range, Status, Txn};
use crate::upload::{self, Clock, Upload};
use crate::{ATTRIBUTE, BY_HAND, Lap, key, owner};

/// The messages of the store.
#[path = "../../idempotent-etcd/src/wire.rs"]
#[allow(dead_code, reason = "by hand needs few of them")]
mod wire;

/// A private cluster, and the contenders connected to it.
pub struct OnEtcd {
    runtime: Runtime,
    attribute: Idempotency,
    by_hand: Transactions,
    /// The version of the server.
    pub version: String,
    _cluster: EtcdCluster,
}

/// The numbers of concurrent tasks.
pub const TASKS: [u32; 2] = [1, 64];

impl OnEtcd {
    /// Starts so many members and connects.
    pub fn start(members: usize) -> Self {
        let cluster = EtcdCluster::start(members).expect("etcd is installed");
        let runtime = Runtime::new().expect("a runtime");
        let store = runtime.block_on(EtcdStore::connect(&cluster.url()));
        let attribute = Idempotency::builder(store.expect("a store"));
        let attribute = attribute.deadline(Duration::from_secs(10));
        let attribute = attribute.build().expect("a handle");
        let address = cluster.members()[0].address();
        let by_hand = runtime.block_on(Transactions::new(&address, &attribute));
        let version = runtime.block_on(by_hand.call(Status {})).version;
        Self {
            runtime,
            attribute,
            by_hand,
            version,
            _cluster: cluster,
        }
    }

    /// First calls, from `tasks` tasks.
    pub fn laps(&self, tasks: u32) -> Vec<Lap<'_>> {
        let attribute = upload::lap(&self.runtime, tasks, Clock::Calls, self.attribute.clone());
        let by_hand = upload::lap(&self.runtime, tasks, Clock::Calls, self.by_hand.clone());
        vec![(ATTRIBUTE, attribute), (BY_HAND, by_hand)]
    }
}

/// A transaction that puts a line if its key is free, and one that compares and deletes it. All lines have one lease.
#[derive(Clone)]
struct Transactions {
    channel: Channel,
    lease: i64,
    /// Fills the line up to the length of a record of the crate.
    rest: String,
}

impl Transactions {
    async fn new(address: &str, attribute: &Idempotency) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let connected = endpoint.tcp_nodelay(true).connect().await;
        let mut new = Self {
            channel: connected.expect("a connection"),
            lease: 0,
            rest: String::new(),
        };
        new.lease = new.call(Grant { ttl: 3600 }).await.id;
        let len = record_len(attribute, &new).await.expect("a free key");
        new.rest = "-".repeat(len.saturating_sub(owner().len()));
        new
    }

    async fn call<M: Method>(&self, request: M) -> M::Reply {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.expect("a connection");
        let path = PathAndQuery::from_static(M::PATH);
        let codec = ProstCodec::<M, M::Reply>::default();
        let reply = grpc.unary(Request::new(request), path, codec).await;
        reply.expect("an answer").into_inner()
    }
}

impl Upload for Transactions {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = Bytes::from(format!("idem:{}", key(":", user_id, &file_md5)));
        let line = Bytes::from(owner() + &self.rest);
        let claim = Txn {
            compare: vec![Compare::is_of(&key, 0)],
            success: vec![Op::put(&key, &line, Some(self.lease))],
            failure: vec![Op::get(&key)],
        };
        assert!(self.call(claim).await.succeeded, "the key is taken");
        let outcome = file_md5.len();
        let release = Txn {
            compare: vec![Compare::is_value(&key, &line)],
            success: vec![Op::delete(&key)],
            failure: vec![Op::get(&key)],
        };
        assert!(
            self.call(release).await.succeeded,
            "the caller owns the key"
        );
        outcome
    }
}

/// The length of the record while a guarded body runs. The body reads it.
#[idempotent(key = (), ttl = "30s", release = true, name = "bench.length", using = idempotency)]
async fn record_len(idempotency: &Idempotency, client: &Transactions) -> Result<usize, Error> {
    let range = Range {
        key: Bytes::from_static(b"\0"),
        end: Bytes::from_static(b"\0"),
        ..Range::default()
    };
    let found = client.call(range).await.kvs;
    Ok(found.first().expect("a record").value.len())
}
