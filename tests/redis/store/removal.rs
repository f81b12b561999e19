//! The compare-and-delete command of new servers.

use bytes::Bytes;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, cmd};
use idempotent_runtime::Store;
use idempotent_runtime::store::Swap;

use crate::store::servers::{TTL, VALUE, key, removes_natively, send, shared, url_of_user};

#[tokio::test]
async fn a_release_on_a_new_server_needs_no_script() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    // Connecting sends scripts.
    send(&server, cmd("CONFIG").arg("RESETSTAT")).await;
    for notifies in [false, true] {
        store.claim("key", &VALUE, TTL).await.unwrap();
        let swap = if notifies {
            store.remove_and_notify("key", &VALUE).await
        } else {
            store.remove("key", &VALUE).await
        };
        assert_eq!(swap.unwrap(), Swap::Done);
    }
    let stats = send(&server, cmd("INFO").arg("commandstats")).await;
    let stats: String = redis::from_redis_value(stats).unwrap();
    let calls = |command| stats.contains(&format!("cmdstat_{command}:calls="));
    let native = removes_natively(&store);
    assert_eq!(calls("delifeq") || calls("delex"), native, "{stats}");
    assert_eq!(calls("evalsha"), !native, "{stats}");
}

#[tokio::test]
async fn without_the_permission_the_script_removes() {
    let server = RedisServer::start().unwrap();
    let rules = "on >s3cret ~* +set +get +pttl +pexpire +del +evalsha +eval +info";
    let rules: Vec<_> = rules.split(' ').collect();
    send(&server, cmd("ACL").arg("SETUSER").arg("least").arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(&server, "least"))
        .await
        .unwrap();
    for _ in 0..2 {
        store.claim("key", &VALUE, TTL).await.unwrap();
        assert_eq!(store.remove("key", &VALUE).await.unwrap(), Swap::Done);
        assert!(!removes_natively(&store));
    }
}

#[tokio::test]
async fn the_script_of_the_runbook_removes_only_the_record_of_the_owner() {
    let page = include_str!("../../../docs/guide/runbooks.md");
    let (_, script) = page.split_once("redis-cli EVAL \"").unwrap();
    let (script, _) = script.split_once("\" 1 $KEY ' ").unwrap();

    let server = RedisServer::shared().unwrap();
    let (store, key) = (shared().await, key());
    let record = Bytes::from_static(b"idem2 R Dx4t 1 1 web:1\n");
    store.claim(&key, &record, TTL).await.unwrap();
    for (owner, removed) in [(" ffff ", 0), (" Dx4t ", 1), (" Dx4t ", 0)] {
        let eval = cmd("EVAL").arg(script).arg(1).arg(&key).arg(owner).clone();
        assert_eq!(send(server, &eval).await, redis::Value::Int(removed));
    }
}
