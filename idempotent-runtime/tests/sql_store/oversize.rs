//! Records that are longer than any that the library writes.

use bytes::Bytes;
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Idempotency, Store, StoreErrorKind};

use crate::databases::{Fresh, OTHER, TTL, VALUE, on_every_database, store};

on_every_database! {
    no_more_is_read_of_a_record_than_it_takes_to_refuse_it
    a_call_that_finds_a_huge_record_is_refused
}

/// About as large as MariaDB takes in one statement, twice, by default.
const HUGE: usize = 7 * 1024 * 1024;
const LONGEST: usize = 1000;

/// What is read of a record that is longer: one byte more than the longest has.
fn is_cut(standing: &Bytes) {
    assert_eq!(standing.len(), LONGEST + 1);
    assert!(standing.iter().all(|byte| *byte == b'x'));
}

async fn no_more_is_read_of_a_record_than_it_takes_to_refuse_it<DB: Fresh>() {
    let store = store::<DB>().await;
    let huge = Bytes::from(vec![b'x'; HUGE]);
    assert_eq!(
        store.claim("key", &huge, TTL).await.unwrap(),
        Claim::Claimed
    );
    let entry = store.get("key").await.unwrap().unwrap();
    assert_eq!(
        entry.value, huge,
        "no handle has said how long a record may be"
    );

    // Of the handles of a store, and of its clones, the largest counts.
    store.longest_record(LONGEST / 2);
    store.clone().longest_record(LONGEST);
    store.longest_record(LONGEST / 2);
    let Claim::Taken(standing) = store.claim("key", &VALUE, TTL).await.unwrap() else {
        panic!("it stands there");
    };
    is_cut(&standing);
    let replaced = store.replace("key", &VALUE, &OTHER, TTL).await.unwrap();
    let exchanged = store.exchange("key", &VALUE, &OTHER).await.unwrap();
    let removed = store.remove("key", &VALUE).await.unwrap();
    for swap in [replaced, exchanged, removed] {
        let Swap::Other(standing) = swap else {
            panic!("it stands there: {swap:?}");
        };
        is_cut(&standing);
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
    let idempotency = Idempotency::new(store.clone());
    let run = async || {
        let call = idempotency.call("test").key(&1).ttl(TTL).replay();
        call.run(async { Ok::<_, Error>(1) }).await
    };
    run().await.unwrap();
    let huge = vec![b'x'; HUGE];
    let key = format!("idem:test:{}", Fingerprint::of(&(1,)).unwrap());
    let standing = store.get(&key).await.unwrap().unwrap().value;
    let put = store.replace(&key, &standing, &huge.into(), TTL).await;
    assert_eq!(put.unwrap(), Swap::Done);
    let refused = run().await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    let refused = idempotency.peek("test", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
}
