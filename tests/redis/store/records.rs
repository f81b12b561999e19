//! Records in the server.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::redis::cmd;
use idempotent_runtime::Store;
use idempotent_runtime::store::{Entry, Swap};

use crate::store::servers::{DONE, VALUE, key, send, shared, shared_by_script};

#[tokio::test]
async fn a_key_without_expiry_has_no_ttl() {
    let (store, key) = (shared().await, key());
    let server = RedisServer::shared().unwrap();
    send(server, cmd("SET").arg(&key).arg(&VALUE[..])).await;
    let entry = store.get(&key).await.unwrap();
    let expected = Entry {
        value: VALUE,
        ttl: None,
    };
    assert_eq!(entry, Some(expected));
}

#[tokio::test]
async fn a_ttl_beyond_the_servers_clock_is_capped() {
    for store in [shared().await, shared_by_script().await] {
        let key = key();
        store.claim(&key, &VALUE, Duration::MAX).await.unwrap();
        for value in [VALUE, DONE] {
            let swap = store.replace(&key, &VALUE, &value, Duration::MAX).await;
            assert_eq!(swap.unwrap(), Swap::Done);
        }
        let remaining = store.get(&key).await.unwrap().unwrap().ttl.unwrap();
        assert!(
            remaining > Duration::from_hours(100 * 365 * 24),
            "{remaining:?}"
        );
    }
}
