//! The store of etcd on clusters with one and with three members.

mod members;

use idempotence::EtcdStore;
use idempotence_test_servers::EtcdCluster;

async fn shared() -> EtcdStore {
    let cluster = EtcdCluster::shared().expect("a cluster");
    EtcdStore::connect(&cluster.url()).await.expect("a store")
}

mod with_one_member {
    idempotence::testkit::conformance!(super::shared());
}
