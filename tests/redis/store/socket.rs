//! A server behind a socket of this machine.

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;

use crate::store::servers::{add_user, assert_works};
use crate::store::waiting::assert_waiting_call_is_woken;

mod suite {
    idempotence::testkit::conformance!(async {
        let server = idempotence_test_servers::RedisServer::shared().unwrap();
        let url = server.unix_url();
        idempotent_redis::RedisStore::connect(&url).await.unwrap()
    });
}

#[tokio::test]
async fn a_waiting_call_is_woken_over_a_socket() {
    let server = RedisServer::start().unwrap();
    let here = RedisStore::connect(&server.unix_url()).await.unwrap();
    let there = RedisStore::connect(&server.url()).await.unwrap();
    assert_waiting_call_is_woken(here, there, &[server]).await;
}

#[tokio::test]
async fn credentials_and_database_are_in_the_query() {
    let server = RedisServer::start().unwrap();
    add_user(&server, "shop", "on >s3c%&et ~* +@all").await;
    let url = format!("{}?user=shop&pass=s3c%25%26et&db=2", server.unix_url());
    assert_works(&RedisStore::connect(&url).await.unwrap()).await;
}
