//! Users of etcd.

use std::time::Duration;

use idempotence::store::{Bytes, Claim, StoreErrorKind};
use idempotence::{EtcdStore, Store as _};
use idempotence_test_servers::EtcdCluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_checked_and_its_token_is_renewed() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    for (path, json) in [
        ("user/add", r#"{"name":"root","password":"r00t"}"#),
        ("role/add", r#"{"name":"root"}"#),
        ("user/grant", r#"{"user":"root","role":"root"}"#),
        ("enable", "{}"),
    ] {
        let answer = member.post(&format!("/v3/auth/{path}"), json).unwrap();
        assert!(answer.contains("200 OK"), "{path}: {answer}");
    }
    let nobody = EtcdStore::connect(&cluster.url()).await.unwrap_err();
    assert_eq!(nobody.kind(), StoreErrorKind::Misconfigured, "{nobody:?}");

    let wrong = cluster.url().replace("//", "//root:s3cret@");
    let wrong = EtcdStore::connect(&wrong).await.unwrap_err();
    assert_eq!(wrong.kind(), StoreErrorKind::Misconfigured, "{wrong:?}");
    assert!(
        wrong
            .to_string()
            .ends_with("refused the name or the password of the user"),
        "{wrong}"
    );
    assert!(!format!("{wrong:?}").contains("s3cret"), "{wrong:?}");

    let right = cluster.url().replace("//", "//root:r00t@");
    let store = EtcdStore::connect(&right).await.unwrap();
    let (value, ttl) = (Bytes::from_static(b"value"), Duration::from_mins(1));
    assert_eq!(
        store.claim("before", &value, ttl).await.unwrap(),
        Claim::Claimed
    );
    // A member forgets all tokens when it ends.
    member.kill().unwrap();
    member.restart().unwrap();
    member.wait_until_healthy().unwrap();
    assert_eq!(
        store.claim("after", &value, ttl).await.unwrap(),
        Claim::Claimed
    );
    assert_eq!(
        store.claim("before", &value, ttl).await.unwrap(),
        Claim::Claimed
    );
    assert!(store.subscribe("after").await.is_some());
}
