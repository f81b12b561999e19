//! The store of etcd on clusters with one and with three members, and its cluster under chaos.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod access;
mod batches;
mod chaos;
mod full;
mod leases;
mod listing;
mod members;
mod requests;
mod setup;
mod tls;

use idempotence::EtcdStore;
use idempotence_test_servers::EtcdCluster;

async fn shared() -> EtcdStore {
    let cluster = EtcdCluster::shared().unwrap();
    EtcdStore::connect(&cluster.url()).await.unwrap()
}

mod with_one_member {
    idempotence::testkit::conformance!(super::shared());
}
