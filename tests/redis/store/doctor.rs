//! The findings of the doctor, each on a server that has the finding.

use std::time::Duration;

use idempotence_test_servers::{Port, RedisCluster, RedisSentinels, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::store::Level;
use idempotent_runtime::store::Mechanism::Bloom;
use idempotent_runtime::{Diagnosis, Idempotency};

use crate::store::replicas::Pair;
use crate::store::servers::{VALUE, add_user, key, send, url_of_user};

/// The deadline is long, so that the doctor does not find a slow machine slow.
const DEADLINE: Duration = Duration::from_secs(20);

async fn diagnosis(url: &str) -> Diagnosis {
    let store = RedisStore::connect(url).await.unwrap();
    let handle = Idempotency::builder(store).deadline(DEADLINE).build();
    handle.unwrap().doctor().await
}

#[track_caller]
fn assert_found(diagnosis: &Diagnosis, level: Level, text: &str) {
    let found = diagnosis.findings().iter().any(|finding| {
        let line = format!(
            "{}: {}",
            finding.found(),
            finding.advice().unwrap_or_default()
        );
        finding.level() == level && line.contains(text)
    });
    assert!(found, "no {level} {text:?} in\n{diagnosis}");
}

async fn config(server: &RedisServer, name: &str, value: &str) {
    send(server, cmd("CONFIG").arg(&["SET", name, value])).await;
}

#[tokio::test]
async fn a_suitable_server_has_only_good_findings() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = RedisServer::start_with(always).unwrap();
    let diagnosis = diagnosis(&server.url()).await;
    for fine in [
        "every operation works",
        "a claim takes",
        "the clock of the store is as fast as the clock of this host",
        "durability is fsync",
        "it can claim by",
        "evicts no keys",
        "synced before every answer",
        "may send every command",
    ] {
        assert_found(&diagnosis, Level::Fine, fine);
    }
    // The only finding is that the server has no replica.
    assert_eq!(diagnosis.worst(), Level::Note, "{diagnosis}");
    let keys: Vec<String> = redis_value(send(&server, cmd("KEYS").arg("*")).await);
    assert!(
        keys.is_empty(),
        "the doctor must remove its keys, and left {keys:?}"
    );
}

fn redis_value<T: idempotent_redis::redis::FromRedisValue>(
    value: idempotent_redis::redis::Value,
) -> T {
    idempotent_redis::redis::from_redis_value(value).unwrap()
}

#[tokio::test]
async fn an_unsuitable_setup_is_found() {
    let server = RedisServer::start_with(["--save", "3600 1"]).unwrap();
    let url = server.url();
    let snapshots = diagnosis(&url).await;
    assert_found(&snapshots, Level::Warning, "snapshots only");
    assert_found(&snapshots, Level::Note, "no replica");

    config(&server, "save", "").await;
    assert_found(&diagnosis(&url).await, Level::Warning, "persists nothing");

    config(&server, "appendonly", "yes").await;
    let every_second = diagnosis(&url).await;
    assert_found(&every_second, Level::Note, "appendfsync = everysec");

    config(&server, "maxmemory", "100mb").await;
    config(&server, "maxmemory-policy", "allkeys-lru").await;
    let evicting = diagnosis(&format!("{url}?allow_eviction=true")).await;
    assert_found(&evicting, Level::Warning, "maxmemory-policy = allkeys-lru");

    config(&server, "maxmemory-policy", "noeviction").await;
    assert_found(
        &diagnosis(&url).await,
        Level::Fine,
        "maxmemory-policy = noeviction",
    );
    config(&server, "maxmemory", "1").await;
    let full = diagnosis(&url).await;
    assert_found(&full, Level::Problem, "cannot claim: ");
    assert_found(&full, Level::Problem, "make room");
    assert_found(&full, Level::Warning, "of the server's memory are used");
    config(&server, "maxmemory", "0").await;

    config(&server, "min-replicas-to-write", "1").await;
    let lonely = diagnosis(&url).await;
    assert_found(&lonely, Level::Problem, "cannot claim: ");
    assert_found(&lonely, Level::Problem, "min-replicas-to-write");
}

#[tokio::test]
async fn replicas_are_found() {
    let pair = Pair::start().await;
    let url = pair.primary.url();
    let wanted = diagnosis(&format!("{url}?replicas=1&replica_timeout=10s")).await;
    assert_found(&wanted, Level::Fine, "is online");
    assert_found(&wanted, Level::Fine, "durability is replicated(1)");
    assert_found(&wanted, Level::Note, "a write waits up to 10s for replicas");
    assert!(wanted.worst() < Level::Problem, "{wanted}");
    let more = diagnosis(&format!("{url}?replicas=2")).await;
    assert_found(&more, Level::Problem, "cannot claim: ");
    assert_found(&more, Level::Problem, "1 of 2 replicas have it");
    assert_found(
        &more,
        Level::Problem,
        "1 of the 2 replicas that a write waits for are online",
    );

    let replica = diagnosis(&pair.replica.url()).await;
    assert_found(&replica, Level::Problem, "the server is a replica");
    assert_found(&replica, Level::Problem, "cannot claim: ");
}

#[tokio::test]
async fn missing_permissions_are_found() {
    let server = RedisServer::start().unwrap();
    let on = async |name: &str, rules: &str| {
        let rules = format!("on >s3cret ~* &* +@all {rules}");
        let rules: Vec<_> = rules.split(' ').collect();
        send(&server, cmd("ACL").arg("SETUSER").arg(name).arg(&rules)).await;
        diagnosis(&url_of_user(&server, name)).await
    };
    for command in ["set", "get", "pttl", "pexpire", "evalsha", "eval", "del"] {
        // The permission is removed later: a user who may not run scripts cannot connect.
        add_user(&server, command, "on >s3cret ~* &* +@all").await;
        let store = RedisStore::connect(&url_of_user(&server, command)).await;
        add_user(&server, command, &format!("-{command}")).await;
        let handle = Idempotency::builder(store.unwrap()).deadline(DEADLINE);
        let diagnosis = handle.build().unwrap().doctor().await;
        let found = format!("may not send {}: ", command.to_uppercase());
        assert_found(&diagnosis, Level::Problem, &found);
        assert_found(&diagnosis, Level::Problem, &format!("allow `+{command}`"));
    }
    for (command, found) in [
        ("info", "does not answer INFO"),
        ("publish", "may not send PUBLISH"),
        ("subscribe", "cannot subscribe"),
        ("config", "there is no append-only file"),
        ("time", "no replica"),
    ] {
        let diagnosis = on(command, &format!("-{command}")).await;
        let level = match command {
            "config" | "info" => Level::Warning,
            _ => Level::Note,
        };
        assert_found(&diagnosis, level, found);
        assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
    }
    let elsewhere = on("elsewhere", "resetkeys ~elsewhere:*").await;
    assert_found(&elsewhere, Level::Problem, "may not send GET: ");
    assert_found(&elsewhere, Level::Problem, "allow the keys of the prefix");
    let muted = on("muted", "resetchannels").await;
    assert_found(&muted, Level::Note, "allow the channels of the prefix");
    for diagnosis in [elsewhere, on("all", "").await] {
        assert!(!diagnosis.to_string().contains("s3cret"));
    }
}

#[tokio::test]
async fn permissions_of_mechanisms_are_problems_only_for_their_users() {
    let server = RedisServer::start_with(["--appendonly", "yes"]).unwrap();
    for command in ["bitfield", "getbit", "bitcount", "pexpireat", "time"] {
        let rules = format!("on >s3cret ~* &* +@all -{command}");
        let rules: Vec<_> = rules.split(' ').collect();
        send(&server, cmd("ACL").arg("SETUSER").arg(command).arg(&rules)).await;
        let store = RedisStore::connect(&url_of_user(&server, command)).await;
        let handle = Idempotency::builder(store.unwrap()).deadline(DEADLINE);
        let handle = handle.build().unwrap();
        let found = format!("may not send {}: ", command.to_uppercase());
        let advice = format!("allow `+{command}`");

        let unnamed = handle.doctor().await;
        assert_found(&unnamed, Level::Note, &found);
        assert!(unnamed.worst() < Level::Problem, "{unnamed}");
        for used in [None, Some(Bloom)] {
            let diagnosis = handle.doctor_for(used).await;
            assert_found(
                &diagnosis,
                Level::Fine,
                "may send every command that calls need",
            );
            if used.is_some() {
                assert_found(&diagnosis, Level::Problem, &found);
                assert_found(&diagnosis, Level::Problem, &advice);
            } else {
                assert!(!diagnosis.to_string().contains(&found), "{diagnosis}");
                assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
            }
        }
    }
}

#[tokio::test]
async fn a_deleted_user_is_advised_to_check_the_password() {
    let server = RedisServer::start().unwrap();
    let user = ["SETUSER", "shop", "on", ">s3cret", "~*", "&*", "+@all"];
    send(&server, cmd("ACL").arg(&user)).await;
    let store = RedisStore::connect(&url_of_user(&server, "shop")).await;
    let handle = Idempotency::builder(store.unwrap()).deadline(DEADLINE);
    let handle = handle.build().unwrap();
    send(&server, cmd("ACL").arg(&["DELUSER", "shop"])).await;
    // The first command finds the closed connection.
    handle.doctor().await;
    let diagnosis = handle.doctor().await;
    assert_found(&diagnosis, Level::Problem, "the user's name and password");
    assert!(!diagnosis.to_string().contains("may send every command"));
}

#[tokio::test]
async fn a_node_of_a_cluster_is_recognised() {
    let bus = Port::free().unwrap();
    let bus = &bus.number().to_string();
    let args = ["--cluster-enabled", "yes", "--cluster-port", bus];
    let server = RedisServer::start_with(args).unwrap();
    let broken = diagnosis(&server.url()).await;
    assert_found(&broken, Level::Problem, "cannot claim: ");
    assert_found(&broken, Level::Problem, "the state of the cluster is fail");
    send(
        &server,
        cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383),
    )
    .await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let deadline = std::time::Instant::now() + DEADLINE;
    while idempotent_runtime::Store::claim(&store, &key(), &VALUE, DEADLINE)
        .await
        .is_err()
    {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let whole = diagnosis(&server.url()).await;
    assert_found(
        &whole,
        Level::Fine,
        "the cluster is complete, with 1 primaries",
    );
}

#[tokio::test]
async fn a_master_behind_sentinels_has_only_good_findings() {
    let sentinels = RedisSentinels::start_with(1, ["--appendonly", "yes"]).unwrap();
    sentinels.keep_master().unwrap();
    let diagnosis = diagnosis(&format!(
        "{}?replicas=1&replica_timeout=20s",
        sentinels.url()
    ))
    .await;
    for fine in ["every operation works", "is online", "replicated(1)"] {
        assert_found(&diagnosis, Level::Fine, fine);
    }
    assert!(diagnosis.worst() < Level::Warning, "{diagnosis}");
}

#[tokio::test]
async fn a_complete_cluster_has_only_good_findings() {
    // No replica replaces the master of a busy machine.
    let args = ["--appendonly", "yes", "--cluster-node-timeout", "20000"];
    let cluster = RedisCluster::start_with(3, 1, args).unwrap();
    let diagnosis = diagnosis(&format!("{}?replicas=1&replica_timeout=20s", cluster.url())).await;
    for fine in ["every operation works", "is online", "replicated(1)"] {
        assert_found(&diagnosis, Level::Fine, fine);
    }
    let whole = "the cluster is complete, with 3 primaries";
    assert_found(&diagnosis, Level::Fine, whole);
    assert_eq!(diagnosis.to_string().matches(whole).count(), 1);
    assert!(diagnosis.worst() < Level::Warning, "{diagnosis}");
}

#[tokio::test]
async fn a_dead_server_is_a_problem() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let deadline = Duration::from_millis(200);
    let handle = Idempotency::builder(store)
        .deadline(deadline)
        .build()
        .unwrap();
    for break_it in [RedisServer::pause, RedisServer::kill] {
        break_it(&server).unwrap();
        let diagnosis = handle.doctor().await;
        assert_found(&diagnosis, Level::Problem, "cannot claim: ");
        assert_found(&diagnosis, Level::Problem, "does not answer INFO");
        assert_found(&diagnosis, Level::Problem, "can be reached from this host");
    }
}
