//! The same suite with three members.

use std::sync::OnceLock;

use idempotence::EtcdStore;
use idempotence_test_servers::EtcdCluster;

fn cluster() -> &'static EtcdCluster {
    static CLUSTER: OnceLock<EtcdCluster> = OnceLock::new();

    CLUSTER.get_or_init(|| EtcdCluster::start(3).expect("a cluster"))
}

async fn store() -> EtcdStore {
    EtcdStore::connect(&cluster().url()).await.expect("a store")
}

idempotence::testkit::conformance!(store());
