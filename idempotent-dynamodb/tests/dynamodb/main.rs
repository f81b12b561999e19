//! The store of DynamoDB on a server of moto, which stands in for AWS.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use idempotence::DynamoDbStore;
use idempotence::dynamodb::aws_sdk_dynamodb::Client;
use idempotence_test_servers::MotoServer;

mod clocks;
mod faults;
mod lambda;
mod proxy;
mod setup;
mod transactions;

/// A store in a table of its own, with a margin of half a second, so that tests of expiries are short.
async fn table(client: &Client, name: &str) -> DynamoDbStore {
    let store = DynamoDbStore::new(client, name).with_margin(Duration::from_millis(500));
    store.create_table().await.unwrap();
    store
}

/// A table that all cases of the suite share.
async fn shared() -> DynamoDbStore {
    let server = MotoServer::shared().unwrap();
    table(&setup::client(&server.endpoint()), "conformance").await
}

mod suite {
    idempotence::testkit::conformance!(super::shared());
}
