//! Leases that claims share.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::store::{Bytes, Claim, Swap};
use idempotence::{DuplicateState, EtcdStore, Idempotency, Store as _};
use idempotence_test_servers::{EtcdCluster, EtcdMember};
use tokio::time::timeout;

use crate::shared;

const MINUTE: Duration = Duration::from_mins(1);
static VALUE: Bytes = Bytes::from_static(b"value");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_one_time_to_live_share_a_lease() {
    let cluster = EtcdCluster::start(1).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    for round in 0..20 {
        let keys: Vec<_> = (0..20).map(|key| format!("{round}:{key}")).collect();
        let claims = keys.iter().map(|key| store.claim(key, &VALUE, MINUTE));
        for claim in join_all(claims).await {
            assert_eq!(claim.unwrap(), Claim::Claimed);
        }
    }
    let leases = leases(&cluster.members()[0]);
    assert!(
        (1..=20).contains(&leases.len()),
        "400 claims have {} leases",
        leases.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_lease_is_lost_gets_another() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    for round in 0..3 {
        let (key, fenced) = (format!("{round}"), format!("{round} fenced"));
        assert_eq!(
            store.claim(&key, &VALUE, MINUTE).await.unwrap(),
            Claim::Claimed
        );
        revoke_all(member);
        // The record had the lease.
        assert_eq!(
            store.claim(&key, &VALUE, MINUTE).await.unwrap(),
            Claim::Claimed
        );
        revoke_all(member);
        let fence = store.claim_fenced(&fenced, "fence", &VALUE, MINUTE).await;
        fence.unwrap();
        assert_eq!(
            store.replace(&key, &VALUE, &VALUE, MINUTE).await.unwrap(),
            Swap::Absent
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_nobody_polls_do_not_hold_up_a_lease() {
    let cluster = EtcdCluster::start(1).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let keys: Vec<_> = (0..8).map(|key| format!("idle:{key}")).collect();
    let claims = keys.iter().map(|key| store.claim(key, &VALUE, MINUTE));
    let mut idle: Vec<_> = claims.collect();
    // There is no lease, so all of them wait for one.
    for claim in &mut idle {
        assert!(claim.now_or_never().is_none());
    }
    for key in ["first", "second"] {
        let other = timeout(MINUTE, store.claim(key, &VALUE, MINUTE)).await;
        assert_eq!(other.unwrap().unwrap(), Claim::Claimed, "{key}");
        revoke_all(&cluster.members()[0]);
    }
    for claim in join_all(idle).await {
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
}

/// etcd counts a lease of ten hours in steps of five seconds, and a new leader begins it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_is_running_although_its_record_lives_longer_than_asked_for() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    let handle = Idempotency::builder_from_url(&cluster.url()).await.unwrap();
    let handle = handle.deadline(MINUTE).build().unwrap();
    let expect_running = async || {
        let peek = handle.peek("call", &("key",)).await.unwrap().unwrap();
        assert_eq!(peek.state(), DuplicateState::Running, "{peek:?}");
    };
    let call = handle.call("call").key("key");
    let call = call.ttl(MINUTE * 1440).lease(MINUTE * 600);
    let body = async {
        expect_running().await;
        member.kill().unwrap();
        member.restart().unwrap();
        member.wait_until_healthy().unwrap();
        expect_running().await;
        Ok::<_, idempotence::Error>(())
    };
    call.run(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_wakes_subscribers() {
    let store = shared().await;
    let key = "an_expiry_wakes_subscribers";
    store
        .claim(key, &VALUE, Duration::from_millis(100))
        .await
        .unwrap();
    let mut changes = store.subscribe(key).await.unwrap();
    timeout(MINUTE, changes.changed()).await.unwrap().unwrap();
    assert_eq!(store.get(key).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_a_mebibyte_is_compared() {
    let store = shared().await;
    let [first, second] = [1, 2].map(|byte| Bytes::from(vec![byte; 1 << 20]));
    let key = "a_record_of_a_mebibyte_is_compared";
    store.claim(key, &first, MINUTE).await.unwrap();
    assert_eq!(
        store.replace(key, &second, &first, MINUTE).await.unwrap(),
        Swap::Done
    );
    assert_eq!(
        store.remove(key, &second).await.unwrap(),
        Swap::Other(first.clone())
    );
    assert_eq!(
        store.replace(key, &first, &first, MINUTE).await.unwrap(),
        Swap::Done
    );
    assert_eq!(
        store.replace(key, &first, &second, MINUTE).await.unwrap(),
        Swap::Done
    );
    assert_eq!(
        store.exchange(key, &second, &first).await.unwrap(),
        Swap::Done
    );
    assert_eq!(store.remove(key, &first).await.unwrap(), Swap::Done);
    assert_eq!(store.remove(key, &first).await.unwrap(), Swap::Absent);
}

/// The ids of all leases.
fn leases(member: &EtcdMember) -> Vec<String> {
    let answer = member.post("/v3/lease/leases", "{}").unwrap();
    let ids = answer.split("\"ID\":\"").skip(1);
    ids.map(|rest| rest.split_once('"').unwrap().0.to_owned())
        .collect()
}

pub(crate) fn revoke_all(member: &EtcdMember) {
    for id in leases(member) {
        let json = format!("{{\"ID\":\"{id}\"}}");
        let answer = member.post("/v3/lease/revoke", &json).unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
    }
}
