//! URLs, and what the doctor finds.

use std::time::Duration;

use idempotence::store::Level;
use idempotence::{Durability, EtcdStore, Idempotency, Store as _, StoreErrorKind};
use idempotence_test_servers::EtcdCluster;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_connects_by_the_url_of_a_cluster() {
    let url = EtcdCluster::shared().unwrap().url();
    let handle = Idempotency::builder_from_url(&url).await.unwrap();
    let handle = handle.prefix("by_url").deadline(MINUTE).build().unwrap();
    let call = async || {
        let call = handle.call("call").key("key").ttl(Duration::from_mins(1));
        call.run(async { Ok::<_, idempotence::Error>(7) }).await
    };
    assert_eq!(call().await.unwrap(), 7);
    assert!(call().await.unwrap_err().is_duplicate());

    let error = Idempotency::builder_from_url(&format!("{url}/?quorum=2"))
        .await
        .unwrap_err();
    let text = error.to_string();
    let expected = "cannot use the etcd of this URL: the etcd URL has an unknown parameter";
    assert!(text.starts_with(expected), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_without_a_connection_is_not_applied() {
    let cluster = EtcdCluster::start(1).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    cluster.members()[0].kill().unwrap();
    // The first operations may be on the broken connection.
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let error = store.get("key").await.unwrap_err();
        if error.kind() == StoreErrorKind::NotApplied {
            assert!(error.to_string().ends_with("cannot be reached"), "{error}");
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{error:?}");
    }
    let error = EtcdStore::connect(&cluster.url()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_while_any_one_member_is_stopped_or_killed() {
    let cluster = EtcdCluster::start(3).unwrap();
    let handle = Idempotency::builder_from_url(&cluster.url()).await.unwrap();
    let handle = handle.deadline(MINUTE).build().unwrap();
    let call = async |key: String| {
        let call = handle.call("call").key(&key).ttl(Duration::from_mins(1));
        let answer = call.run(async { Ok::<_, idempotence::Error>(()) }).await;
        answer.unwrap_or_else(|error| panic!("{key}: {error:?}"));
    };
    for member in cluster.members() {
        member.pause().unwrap();
        call(format!("{} is stopped", member.address())).await;
        member.resume().unwrap();
        member.wait_until_healthy().unwrap();
        member.kill().unwrap();
        call(format!("{} is killed", member.address())).await;
        member.restart().unwrap();
        member.wait_until_healthy().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_a_lone_member_and_open_doors() {
    let store = crate::shared().await;
    assert_eq!(store.durability(), Durability::Quorum);
    let found = store.examine("key", MINUTE).await;
    for (level, text) in [
        (Level::Fine, "etcd 3."),
        (Level::Warning, "the cluster has one member"),
        (Level::Note, "auth is off"),
        (Level::Note, "TLS is off"),
    ] {
        let is_found = |level, text: &str| {
            found
                .iter()
                .any(|one| one.level() == level && one.found().starts_with(text))
        };
        assert!(is_found(level, text), "{text}: {found:#?}");
    }
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_a_lost_member_and_a_lost_quorum() {
    let cluster = EtcdCluster::start(3).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    cluster.members()[0].kill().unwrap();
    cluster.leader().unwrap();
    let texts = async || {
        let found = store.examine("key", Duration::from_secs(5)).await;
        found
            .iter()
            .map(|one| format!("{}: {one}", one.level()))
            .collect::<Vec<_>>()
            .join("\n")
    };
    // A member that was just killed may still have a connection.
    let found = texts().await;
    assert!(
        found.contains("warning: the member") && found.contains("does not answer"),
        "{found}"
    );
    assert!(
        found.contains("the cluster has 3 members, and 1 may fail"),
        "{found}"
    );

    cluster.members()[1].kill().unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let found = texts().await;
        if found.contains("problem: the member") && found.contains("has no leader") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_members_of_two_clusters() {
    let clusters = [1, 1].map(|members| EtcdCluster::start(members).unwrap());
    let [one, other] = clusters.each_ref().map(|cluster| &cluster.members()[0]);
    let url = format!("etcd://{},{}", one.address(), other.address());
    let store = EtcdStore::connect(&url).await.unwrap();
    let found = store.examine("key", MINUTE).await;
    let text = "the members are of different clusters: each admits a call of a key";
    let is_found = found
        .iter()
        .any(|one| one.level() == Level::Problem && one.found() == text);
    assert!(is_found, "{found:#?}");
}
