//! Listed records.

use std::time::Duration;

use idempotence::store::Bytes;
use idempotence::{EtcdStore, Store as _};
use idempotence_test_servers::EtcdCluster;

use crate::requests::started;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_has_each_record_once_between_keys_that_are_not_text_and_asks_once_for_a_lease() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let value = Bytes::from_static(b"value");
    // Claims at once share a lease.
    let keys = ["list:a", "list:b", "list:c"];
    let claims = keys.iter().map(|key| store.claim(key, &value, MINUTE));
    futures_util::future::try_join_all(claims).await.unwrap();
    // `list:a` and `list:b` with the bytes 255 and 0, 1 or 2 after them.
    for key in [
        "bGlzdDph/wA=",
        "bGlzdDph/wE=",
        "bGlzdDph/wI=",
        "bGlzdDpi/wA=",
        "bGlzdDpi/wE=",
    ] {
        let json = format!("{{\"key\":\"{key}\",\"value\":\"dmFsdWU=\"}}");
        let answer = member.post("/v3/kv/put", &json).unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
    }
    for most in 1..10 {
        let (mut listed, mut after) = (Vec::new(), None);
        for _ in 0..10 {
            let page = store.list("list:", after.as_ref(), most).await.unwrap();
            let page = page.unwrap();
            assert!(page.records.len() <= most, "{page:?}");
            listed.extend(page.records.into_iter().map(|record| record.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(after, None, "the listing of {most} does not end");
        assert_eq!(listed, keys, "in pages of {most}");
    }

    let before = started(member, "LeaseTimeToLive");
    store.list("list:", None, 100).await.unwrap();
    assert_eq!(started(member, "LeaseTimeToLive") - before, 1);
}
