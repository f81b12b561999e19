//! A Redis that loses a filter, or refuses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::Hint;

use crate::bloom::server::{ask, keys, store_on};
use crate::bloom::table::Table;
use crate::bloom::trouble::order;
use crate::bloom::{bloom, perhaps_seen};

#[tokio::test]
async fn a_filter_that_the_server_lost_starts_empty() {
    let server = RedisServer::start().unwrap();
    let (bloom, table) = (bloom(store_on(&server).await, 1000), Table::default());
    assert_eq!(order(&bloom, &table, 42).await, (true, false));
    ask::<()>(&server, &cmd("FLUSHALL")).await;
    assert_eq!(order(&bloom, &table, 42).await, (false, false));
    assert_eq!(order(&bloom, &table, 42).await, (false, true));
    server.restart().unwrap();
    // The first mark may find a broken connection. That costs a look-up.
    assert!(!order(&bloom, &table, 42).await.0);
    assert!(!order(&bloom, &table, 42).await.0);
    assert_eq!(bloom.hint(&42).await.unwrap(), Hint::PerhapsSeen);
}

#[tokio::test]
async fn an_unavailable_server_costs_look_ups() {
    let server = RedisServer::start().unwrap();
    let (bloom, table) = (bloom(store_on(&server).await, 1000), Table::default());
    server.kill().unwrap();
    assert_eq!(order(&bloom, &table, 42).await, (true, true));
    assert_eq!(order(&bloom, &table, 42).await, (false, true));
    assert!(bloom.hint(&42).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_server_without_memory_costs_look_ups() {
    let server = RedisServer::start().unwrap();
    let (bloom, table) = (bloom(store_on(&server).await, 1000), Table::default());
    ask::<()>(&server, cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    assert_eq!(order(&bloom, &table, 42).await, (true, true));
    assert_eq!(order(&bloom, &table, 42).await, (false, true));
    assert!(keys(&server).await.is_empty());
}

#[tokio::test]
async fn a_value_of_another_program_stays_and_costs_look_ups() {
    let server = RedisServer::start().unwrap();
    let (bloom, table) = (bloom(store_on(&server).await, 1000), Table::default());
    let _ = bloom.hint(&1).await.unwrap();
    let key = keys(&server).await.remove(0);
    let name = key.trim_end_matches(char::is_numeric);
    ask::<()>(&server, &cmd("FLUSHALL")).await;
    for slot in 0..3 {
        ask::<()>(&server, cmd("SADD").arg(format!("{name}{slot}")).arg(1)).await;
    }
    let error = bloom.hint(&42).await.unwrap_err();
    assert_eq!(error.code(), "foreign_record");
    assert_eq!(order(&bloom, &table, 42).await, (true, true));
    for slot in 0..3 {
        let remaining: i64 = ask(&server, cmd("PTTL").arg(format!("{name}{slot}"))).await;
        assert_eq!(
            remaining, -1,
            "the value of another program must not get an expiry"
        );
    }
}

async fn store_of(server: &RedisServer, rules: &str) -> RedisStore {
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("filters").arg("reset");
    ask::<()>(server, user.arg(rules.split(' ').collect::<Vec<_>>())).await;
    let url = format!("redis://filters:s3cret@127.0.0.1:{}", server.port());
    RedisStore::connect(&url).await.unwrap()
}

/// The permissions in the documentation of the store.
const LEAST: &str = "on >s3cret ~idem:* +set +get +pttl +pexpire +del +evalsha +eval +info \
                     +time +pexpireat +getbit +bitfield +bitcount";

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let server = RedisServer::start().unwrap();
    let bloom = bloom(store_of(&server, LEAST).await, 1000);
    assert_eq!(perhaps_seen(&bloom, 0..10).await, 0);
    assert_eq!(perhaps_seen(&bloom, 0..10).await, 10);
    assert_eq!(bloom.stats().await.unwrap().unwrap().members, 10);
}

#[tokio::test]
async fn a_user_without_one_of_the_permissions_leaves_no_key() {
    let server = RedisServer::start().unwrap();
    for missing in ["+pttl", "+time", "+pexpireat", "+getbit", "+bitfield"] {
        let rules = LEAST.replace(&format!(" {missing}"), "");
        let (bloom, table) = (
            bloom(store_of(&server, &rules).await, 1000),
            Table::default(),
        );
        let error = bloom.hint(&42).await.unwrap_err();
        assert_eq!(error.code(), "store_misconfigured", "{missing}");
        assert_eq!(order(&bloom, &table, 42).await, (true, true), "{missing}");
        assert!(keys(&server).await.is_empty(), "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_marks_survive_kill_9_with_an_append_only_file() {
    let server = RedisServer::start_with(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Arc::new(server.unwrap());
    let bloom = bloom(store_on(&server).await, 100_000);
    let (ends, marking) = (Arc::new(AtomicBool::new(false)), bloom.clone());
    let ended = Arc::clone(&ends);
    let under_way = Arc::new(tokio::sync::Notify::new());
    let enough = Arc::clone(&under_way);
    let marking = tokio::spawn(async move {
        let mut marked = Vec::new();
        for member in 0_u64.. {
            match marking.hint(&member).await {
                Ok(_) => {
                    marked.push(member);
                    if marked.len() == 20 {
                        enough.notify_one();
                    }
                }
                // The server was killed during a mark.
                Err(_) if ended.load(Ordering::SeqCst) => break,
                Err(error) => panic!("{error}"),
            }
        }
        marked
    });
    let killed = Arc::clone(&server);
    under_way.notified().await;
    let killing = tokio::task::spawn_blocking(move || {
        ends.store(true, Ordering::SeqCst);
        killed.kill().unwrap();
    });
    killing.await.unwrap();
    let marked = marking.await.unwrap();
    server.restart().unwrap();
    let after = crate::bloom::bloom(store_on(&server).await, 100_000);
    let seen = perhaps_seen(&after, marked.iter().copied()).await;
    assert_eq!(seen, marked.len() as u64);
    for key in keys(&server).await {
        let remaining: i64 = ask(&server, cmd("PTTL").arg(&key)).await;
        assert!(remaining > 0, "{key}: {remaining}");
    }
}
