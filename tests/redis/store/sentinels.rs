//! Stores on a master behind sentinels.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use idempotence_test_servers::{RedisSentinels, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::store::Claim;
use idempotent_runtime::{Store, StoreErrorKind};
use tokio::time::timeout;

use crate::store::load::Load;
use crate::store::replicas::runs_only_with_replicas;
use crate::store::servers::{
    DONE, LEAST, MAX_WAIT, TTL, VALUE, add_user, assert_works, chain, connected_by, key, kind, send,
};
use crate::store::waiting::assert_waiting_call_is_woken;

mod suite {
    idempotence::testkit::conformance!(super::on_the_shared_master());
}

async fn on_the_shared_master() -> RedisStore {
    static SENTINELS: OnceLock<RedisSentinels> = OnceLock::new();
    let sentinels = SENTINELS.get_or_init(that_keep_their_master);
    connected(&sentinels.url()).await
}

/// Sentinels of tests without a fail-over: a busy master is not replaced.
fn that_keep_their_master() -> RedisSentinels {
    let sentinels = RedisSentinels::start().unwrap();
    sentinels.keep_master().unwrap();
    sentinels
}

async fn connected(url: &str) -> RedisStore {
    connected_by(&RedisStore::options(), url).await
}

#[tokio::test]
async fn a_waiting_call_is_woken_behind_sentinels() {
    let sentinels = that_keep_their_master();
    let (here, there) = (
        connected(&sentinels.url()).await,
        connected(&sentinels.url()).await,
    );
    assert_waiting_call_is_woken(here, there, sentinels.servers()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_replaced_under_load() {
    let sentinels = RedisSentinels::start().unwrap();
    let store = connected(&sentinels.url()).await;
    let load = Load::on(&store).await;
    let master = sentinels.master().unwrap();
    master.kill().unwrap();
    sentinels.wait_for_failover(master).unwrap();
    load.goes_well().await;
    assert!(!load.end().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_master_is_replaced_after_the_failover() {
    let sentinels = RedisSentinels::start().unwrap();
    let store = connected(&sentinels.url()).await;
    let load = Load::on(&store).await;
    let master = sentinels.master().unwrap();
    master.pause().unwrap();
    sentinels.wait_for_failover(master).unwrap();
    let begun = Instant::now();
    load.goes_well().await;
    eprintln!("calls succeed {:?} after the fail-over", begun.elapsed());
    master.resume().unwrap();
    load.goes_well().await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_became_a_replica_is_disconnected() {
    let sentinels = RedisSentinels::start().unwrap();
    let store = connected(&sentinels.url()).await;
    let load = Load::on(&store).await;
    sentinels.fail_over().unwrap();
    load.goes_well().await;
    load.end().await;
}

#[tokio::test]
async fn a_call_behind_sentinels_runs_only_when_the_replica_has_its_claim() {
    let sentinels = that_keep_their_master();
    let store = connected(&format!("{}?replicas=1", sentinels.url())).await;
    runs_only_with_replicas(&store, &[sentinels.replica().unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replicated_claim_survives_a_failover() {
    let sentinels = RedisSentinels::start().unwrap();
    let with = |timeout| format!("{}?replicas=1&replica_timeout={timeout}", sentinels.url());
    let (store, hasty) = (
        connected(&with("20s")).await,
        connected(&with("50ms")).await,
    );
    let keys: Vec<_> = (0..50).map(|_| key()).collect();
    for key in &keys {
        let claim = store.claim(key, &VALUE, TTL).await.unwrap();
        assert_eq!(claim, Claim::Claimed);
    }
    let (master, replica) = (sentinels.master().unwrap(), sentinels.replica().unwrap());
    replica.pause().unwrap();
    let refused = hasty.claim("late", &VALUE, TTL).await;
    assert_eq!(kind(refused), StoreErrorKind::Unknown);
    master.kill().unwrap();
    replica.resume().unwrap();
    sentinels.wait_for_failover(master).unwrap();
    // The new master has no replica until the old master runs again, so every wait takes its longest time.
    for key in &keys {
        assert_eq!(claim_of_another(&hasty, key).await, Claim::Taken(VALUE));
    }
    let refused = hasty.claim("lonely", &VALUE, TTL).await;
    assert_eq!(kind(refused), StoreErrorKind::Unknown);
    master.restart().unwrap();
    sentinels.wait_until_healthy().unwrap();
    assert_eq!(claim_of_another(&store, &key()).await, Claim::Claimed);
}

/// Repeats the claim until it is answered.
async fn claim_of_another(store: &RedisStore, key: &str) -> Claim {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match store.claim(key, &DONE, TTL).await {
            Ok(claim) => return claim,
            Err(error) => assert!(Instant::now() < deadline, "{}", chain(&error)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_that_answers_is_enough() {
    let sentinels = that_keep_their_master();
    let store = connected(&sentinels.url()).await;
    sentinels.sentinels()[0].kill().unwrap();
    sentinels.sentinels()[1].pause().unwrap();
    assert_works(&store).await;
    let deadline = Instant::now() + MAX_WAIT;
    // A busy machine also delays a connection, so the check is repeated.
    loop {
        let begun = Instant::now();
        let connected = RedisStore::connect(&sentinels.url()).await;
        let took = begun.elapsed();
        if let Ok(connected) = &connected {
            assert_works(connected).await;
        }
        if connected.is_ok() && took < Duration::from_secs(1) {
            break;
        }
        assert!(Instant::now() < deadline, "{took:?}");
    }
}

#[tokio::test]
async fn connecting_fails_if_no_sentinel_answers() {
    let sentinels = that_keep_their_master();
    for sentinel in sentinels.sentinels() {
        sentinel.kill().unwrap();
    }
    let error = RedisStore::connect(&sentinels.url()).await.unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::NotApplied,
        "{}",
        chain(&error)
    );
    assert!(chain(&error).contains("mymaster"));
}

#[tokio::test]
async fn a_wrong_master_name_is_a_misconfiguration() {
    let sentinels = that_keep_their_master();
    let elsewhere = sentinels.url().replace("mymaster", "elsewhere");
    let error = RedisStore::connect(&elsewhere).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(chain(&error).contains("elsewhere"));

    let sentinel = &sentinels.sentinels()[0];
    let error = RedisStore::connect(&sentinel.url()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(chain(&error).contains("redis-sentinel://"));

    let server = RedisServer::start().unwrap();
    let url = format!("redis-sentinel://127.0.0.1:{}/mymaster", server.port());
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::Misconfigured,
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_replica_is_refused_although_a_sentinel_names_it_as_master() {
    let server = RedisServer::start().unwrap();
    let replica_of = async |host: &str, port: &str| {
        send(&server, cmd("REPLICAOF").arg(host).arg(port)).await;
    };
    replica_of("127.0.0.1", "1").await;
    let sentinel = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = sentinel.local_addr().unwrap();
    let port = server.port();
    thread::spawn(move || name_as_master(&sentinel, port));
    let url = format!("redis-sentinel://{address}/mymaster");
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotApplied);
    assert!(
        chain(&error).contains("names is a replica"),
        "{}",
        chain(&error)
    );
    replica_of("NO", "ONE").await;
    assert_works(&RedisStore::connect(&url).await.unwrap()).await;
}

/// A sentinel that always names this server as the master.
fn name_as_master(sentinel: &TcpListener, port: u16) {
    let length = port.to_string().len();
    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${length}\r\n{port}\r\n");
    for client in sentinel.incoming() {
        let (mut client, answer) = (client.unwrap(), answer.clone());
        thread::spawn(move || {
            let mut request = [0; 4096];
            while let Ok(length @ 1..) = client.read(&mut request) {
                let asked = String::from_utf8_lossy(&request[..length]);
                // The first line of a command is the number of its words.
                let commands = asked.matches('*').count();
                let reply = if asked.contains("GET-MASTER-ADDR-BY-NAME") {
                    answer.clone()
                } else {
                    "+OK\r\n".repeat(commands)
                };
                client.write_all(reply.as_bytes()).unwrap();
            }
        });
    }
}

#[tokio::test]
async fn sentinels_and_servers_have_separate_credentials() {
    let sentinels = that_keep_their_master();
    for server in sentinels.servers() {
        add_user(server, "shop", &format!("{LEAST} +role")).await;
    }
    let least = "on >t0ken +sentinel|get-master-addr-by-name";
    for sentinel in sentinels.sentinels() {
        add_user(sentinel, "finder", least).await;
        send(
            sentinel,
            cmd("ACL").arg("SETUSER").arg("default").arg("off"),
        )
        .await;
    }
    let url = sentinels.url().replace("://", "://shop:s3cret@");
    let with = |password: &str| format!("{url}?sentinel_user=finder&sentinel_pass={password}");
    assert_works(&connected(&with("t0ken")).await).await;
    for url in [
        url.clone(),
        with("wrong"),
        with("t0ken").replace("s3cret", "wrong"),
    ] {
        let error = RedisStore::connect(&url).await.unwrap_err();
        assert_eq!(
            error.kind(),
            StoreErrorKind::Misconfigured,
            "{}",
            chain(&error)
        );
        assert!(!chain(&error).contains("t0ken"));
    }
}

#[tokio::test]
async fn a_paused_master_does_not_block_forever() {
    let sentinels = RedisSentinels::start().unwrap();
    let store = connected(&sentinels.url()).await;
    let (master, key) = (sentinels.master().unwrap(), key());
    master.pause().unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    let claim = loop {
        // One call at a time, without a pause.
        match timeout(Duration::from_millis(250), store.claim(&key, &VALUE, TTL)).await {
            Ok(Ok(claim)) => break claim,
            Ok(Err(error)) => assert_eq!(error.kind(), StoreErrorKind::NotApplied),
            Err(_) => {}
        }
        assert!(Instant::now() < deadline, "no master answers");
    };
    assert_eq!(claim, Claim::Claimed);
    master.resume().unwrap();
    let other = store.claim(&key, &VALUE, TTL).await;
    assert_eq!(other.unwrap(), Claim::Claimed);
}
