//! Records that are longer than the records of this library.

use bytes::Bytes;
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Store, StoreErrorKind};

use crate::store::databases::{Fresh, OTHER, TTL, VALUE, store};
use support::patient::patient;

on_every_database! {
    a_record_is_read_only_as_far_as_needed_to_refuse_it
    a_call_that_finds_a_huge_record_is_refused
}

/// About the largest value that fits twice into one statement of MariaDB by default.
const HUGE: usize = 7 * 1024 * 1024;
const LONGEST: usize = 1000;

/// At most one byte more than the longest allowed record is read.
fn is_cut(record: &Bytes) {
    assert_eq!(record.len(), LONGEST + 1);
    assert!(record.iter().all(|byte| *byte == b'x'));
}

async fn a_record_is_read_only_as_far_as_needed_to_refuse_it<DB: Fresh>() {
    let store = store::<DB>().await;
    let huge = Bytes::from(vec![b'x'; HUGE]);
    assert_eq!(
        store.claim("key", &huge, TTL).await.unwrap(),
        Claim::Claimed
    );
    let entry = store.get("key").await.unwrap().unwrap();
    assert_eq!(
        entry.value, huge,
        "no handle has set how long a record may be"
    );

    // The largest limit of all handles of a store and its clones counts.
    store.longest_record(LONGEST / 2);
    store.clone().longest_record(LONGEST);
    store.longest_record(LONGEST / 2);
    let Claim::Taken(record) = store.claim("key", &VALUE, TTL).await.unwrap() else {
        panic!("the record must be found");
    };
    is_cut(&record);
    let replaced = store.replace("key", &VALUE, &OTHER, TTL).await.unwrap();
    let exchanged = store.exchange("key", &VALUE, &OTHER).await.unwrap();
    let removed = store.remove("key", &VALUE).await.unwrap();
    for swap in [replaced, exchanged, removed] {
        let Swap::Other(record) = swap else {
            panic!("the record must be found: {swap:?}");
        };
        is_cut(&record);
    }
    is_cut(&store.get("key").await.unwrap().unwrap().value);
    let counted = store.count("key", 1, TTL).await.unwrap_err();
    assert_eq!(counted.kind(), StoreErrorKind::Misconfigured);

    let longest = Bytes::from(vec![b'y'; LONGEST]);
    for (key, value) in [("longest", longest), ("shortest", Bytes::new())] {
        assert_eq!(store.claim(key, &value, TTL).await.unwrap(), Claim::Claimed);
        assert_eq!(store.get(key).await.unwrap().unwrap().value, value);
        let taken = store.claim(key, &VALUE, TTL).await.unwrap();
        assert_eq!(taken, Claim::Taken(value));
    }
}

async fn a_call_that_finds_a_huge_record_is_refused<DB: Fresh>() {
    let store = store::<DB>().await;
    let idempotency = patient(store.clone());
    let run = async || {
        let call = idempotency.call("test").key(&1).ttl(TTL).replay();
        call.run(async { Ok::<_, Error>(1) }).await
    };
    run().await.unwrap();
    let huge = vec![b'x'; HUGE];
    let key = format!("idem:test:{}", Fingerprint::of(&(1,)).unwrap());
    let record = store.get(&key).await.unwrap().unwrap().value;
    let put = store.replace(&key, &record, &huge.into(), TTL).await;
    assert_eq!(put.unwrap(), Swap::Done);
    let refused = run().await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    let refused = idempotency.peek("test", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
}
