//! Transactions that wait go together.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use idempotence::store::{Bytes, Claim, Swap};
use idempotence::{EtcdStore, Store as _};
use idempotence_test_servers::EtcdCluster;
use tokio::time::timeout;

use crate::leases::revoke_all;
use crate::requests::started;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_wait_go_together_and_each_gets_its_answer() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let [mine, yours] = [b"mine!", b"yours"].map(|value| Bytes::from_static(value));
    let keys: Vec<_> = (0..200).map(|key| format!("together:{key}")).collect();
    // Later claims find the lease.
    store.claim("first", &mine, MINUTE).await.unwrap();

    let before = started(member, "Txn");
    let two = keys.iter().map(|key| {
        join(
            store.claim(key, &mine, MINUTE),
            store.claim(key, &yours, MINUTE),
        )
    });
    let answers = join_all(two).await;
    let requests = started(member, "Txn") - before;
    // At most 16 go together, because each answer may have a large record.
    assert!(
        (25..200).contains(&requests),
        "400 claims took {requests} requests"
    );
    let mut owners = Vec::new();
    for answers in answers {
        owners.push(match answers {
            (Ok(Claim::Claimed), Ok(Claim::Taken(other))) if other == mine => &mine,
            (Ok(Claim::Taken(other)), Ok(Claim::Claimed)) if other == yours => &yours,
            answers => panic!("{answers:?}"),
        });
    }
    let removals = keys.iter().zip(owners);
    let removals = removals.map(|(key, owner)| store.remove(key, owner));
    for removed in join_all(removals).await {
        assert_eq!(removed.unwrap(), Swap::Done);
    }

    // One lease that was lost is the lease of all, and one that is too large fails all.
    revoke_all(member);
    let large = Bytes::from(vec![7; 2 << 20]);
    let claims = keys.iter().enumerate().map(|(at, key)| {
        let value = if at == 100 { &large } else { &mine };
        store.claim(key, value, MINUTE)
    });
    for (at, claimed) in join_all(claims).await.into_iter().enumerate() {
        assert_eq!(claimed.is_ok(), at != 100, "{at}: {claimed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_nobody_polls_hold_up_no_other_caller() {
    let cluster = EtcdCluster::start(1).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let mine = Bytes::from_static(b"mine!");
    // Later claims find the lease, so their first poll sends them.
    store.claim("first", &mine, MINUTE).await.unwrap();
    let keys: Vec<_> = (0..8).map(|key| format!("idle:{key}")).collect();
    let claims = keys.iter().map(|key| store.claim(key, &mine, MINUTE));
    let mut idle: Vec<_> = claims.collect();
    for claim in &mut idle {
        assert!(claim.now_or_never().is_none());
    }
    // No claim waits for a timer.
    let others = async {
        for other in 0..400 {
            let key = format!("other:{other}");
            let claimed = store.claim(&key, &mine, MINUTE).await;
            assert_eq!(claimed.unwrap(), Claim::Claimed);
        }
    };
    timeout(MINUTE, others).await.unwrap();
    for claim in join_all(idle).await {
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
}
