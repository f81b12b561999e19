//! A database that has reached its quota.

use std::time::Duration;

use idempotence::store::{Bytes, Claim, Level, StoreErrorKind, Swap};
use idempotence::{EtcdStore, Idempotency, Store as _};
use idempotence_test_servers::EtcdCluster;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_answers_duplicates_and_renewals_and_refuses_the_rest() {
    let cluster = EtcdCluster::start_with(1, ["--quota-backend-bytes=8388608"]).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let [mine, yours] = [b"mine!", b"yours"].map(|value| Bytes::from_static(value));
    assert_eq!(
        store.claim("held", &mine, MINUTE).await.unwrap(),
        Claim::Claimed
    );
    let large = Bytes::from(vec![7; 1 << 20]);
    let mut filled = 0;
    let full = loop {
        match store
            .claim(&format!("large {filled}"), &large, MINUTE)
            .await
        {
            Ok(_) => filled += 1,
            Err(error) => break error,
        }
        assert!(filled < 100, "the database is never full");
    };
    assert_eq!(full.kind(), StoreErrorKind::Full, "{full:?}");

    // A duplicate gets its answer, a renewal prolongs the claim.
    assert_eq!(
        store.claim("held", &yours, MINUTE).await.unwrap(),
        Claim::Taken(mine.clone())
    );
    assert_eq!(
        store.claim("held", &mine, MINUTE).await.unwrap(),
        Claim::Claimed
    );
    assert_eq!(
        store.replace("held", &mine, &mine, MINUTE).await.unwrap(),
        Swap::Done
    );
    assert_eq!(
        store.replace("held", &yours, &mine, MINUTE).await.unwrap(),
        Swap::Done
    );
    assert_eq!(
        store.replace("free", &mine, &mine, MINUTE).await.unwrap(),
        Swap::Absent
    );
    assert_eq!(store.get("held").await.unwrap().unwrap().value, mine);
    // The rest is refused and changes nothing.
    let hour = MINUTE * 60;
    for refused in [
        store.claim("new", &mine, MINUTE).await.map(drop),
        store
            .claim_fenced("new", "fence", &mine, MINUTE)
            .await
            .map(drop),
        store.replace("held", &mine, &yours, MINUTE).await.map(drop),
        store.replace("held", &mine, &mine, hour).await.map(drop),
        store.exchange("held", &mine, &yours).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Full);
    }
    assert_eq!(store.get("held").await.unwrap().unwrap().value, mine);
    assert_eq!(store.get("new").await.unwrap(), None);

    let found = store.examine("key", MINUTE).await;
    let alarm = found.iter().find(|one| one.found().contains("NOSPACE"));
    assert_eq!(
        alarm.map(idempotence::store::Finding::level),
        Some(Level::Problem),
        "{found:#?}"
    );

    let handle = Idempotency::builder(store.clone())
        .deadline(Duration::from_secs(5))
        .build()
        .unwrap();
    let call = handle.call("full").key("key").ttl(MINUTE);
    let mut ran = false;
    let refused = call.run(async {
        ran = true;
        Ok::<_, idempotence::Error>(())
    });
    let refused = refused.await.unwrap_err();
    assert!(!ran, "the body ran without a claim");
    assert!(
        matches!(refused, idempotence::Error::Unavailable(_)),
        "{refused:?}"
    );

    // Below the quota there is room for a removal, although the alarm is on.
    match store.remove("held", &mine).await {
        Ok(swap) => assert_eq!(swap, Swap::Done),
        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Full),
    }
}
