//! The Redis store, on private servers.

mod batches;
mod batches_cut_short;
mod batches_of_mechanisms;
mod checks;
mod cluster;
mod connection;
mod cut_bytes;
mod doctor;
mod error_texts;
mod hints;
mod late_answers;
mod load;
mod nodes;
mod oversize;
mod permissions;
mod proxied;
mod records;
mod refusals;
mod removal;
mod replicas;
mod replicas_by_node;
mod replicas_in_batches;
mod run_each;
mod sentinels;
mod servers;
mod shifted_replies;
mod silent_at_the_end;
mod socket;
mod tls;
mod waiting;

use crate::store::batches::crowded;
use crate::store::replicas::{shared_with_replica, shared_with_replica_on_a_connection};
use crate::store::replicas_in_batches::crowded_with_replica;
use crate::store::servers::{connection_to, shared, shared_by_script};

mod suite {
    idempotence::testkit::conformance!(super::shared());
}

mod suite_in_batches {
    idempotence::testkit::conformance!(super::crowded());
}

mod suite_by_script {
    idempotence::testkit::conformance!(super::shared_by_script());
}

mod suite_with_a_replica {
    idempotence::testkit::conformance!(super::shared_with_replica());
}

mod suite_with_a_replica_in_batches {
    idempotence::testkit::conformance!(super::crowded_with_replica());
}

mod suite_with_a_replica_on_a_connection {
    idempotence::testkit::conformance!(super::shared_with_replica_on_a_connection());
}

mod suite_on_a_connection {
    idempotence::testkit::conformance!(async {
        let server = idempotence_test_servers::RedisServer::shared().unwrap();
        let connection = super::connection_to(server).await;
        idempotent_redis::RedisStore::from_connection(connection)
            .await
            .unwrap()
    });
}
