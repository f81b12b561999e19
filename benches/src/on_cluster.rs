//! The attribute, with and without batches, and the same commands by hand, on a cluster of three masters.

use idempotence::{Idempotency, RedisStore};
use idempotence_test_servers::RedisCluster;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use tokio::runtime::Runtime;

use crate::on_redis::{Commands, record_len};
use crate::upload::{self, Clock};
use crate::{ATTRIBUTE, BY_HAND, Lap};

/// A private cluster, and the contenders connected to it.
pub struct OnCluster {
    runtime: Runtime,
    attribute: Idempotency,
    /// The attribute, with each operation as its own request.
    unbatched: Idempotency,
    by_hand: Commands<ClusterConnection>,
    _cluster: RedisCluster,
}

impl OnCluster {
    /// Starts the servers and connects.
    pub fn start() -> Self {
        let cluster = RedisCluster::start(3, 0).expect("redis-server is installed");
        let runtime = Runtime::new().expect("a runtime");
        let client = ClusterClient::new(cluster.urls()).expect("a client");
        let connection = runtime.block_on(client.get_async_connection());
        let connection = connection.expect("a connection");
        let connect = |batches| {
            let options = RedisStore::options().batch(batches);
            let store = runtime.block_on(options.connect(&cluster.url()));
            Idempotency::new(store.expect("a store"))
        };
        let (attribute, unbatched) = (connect(true), connect(false));
        let record_len = runtime.block_on(record_len(&attribute, connection.clone()));
        Self {
            attribute,
            unbatched,
            by_hand: runtime.block_on(Commands::new(connection, record_len)),
            runtime,
            _cluster: cluster,
        }
    }

    /// First calls, from `tasks` tasks.
    pub fn laps(&self, tasks: u32) -> Vec<Lap<'_>> {
        let attribute = upload::lap(&self.runtime, tasks, Clock::Calls, self.attribute.clone());
        let by_hand = upload::lap(&self.runtime, tasks, Clock::Calls, self.by_hand.clone());
        let unbatched = upload::lap(&self.runtime, tasks, Clock::Calls, self.unbatched.clone());
        vec![
            (ATTRIBUTE, attribute),
            (BY_HAND, by_hand),
            ("batch = false", unbatched),
        ]
    }
}
