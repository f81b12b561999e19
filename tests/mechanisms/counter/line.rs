//! The record of a counter, which is the same in every store.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::{MemoryStore, Store, StoreErrorKind};

const WINDOW: Duration = Duration::from_mins(10);

fn key() -> String {
    format!("idem:count:line:{:032x}", rand::random::<u128>())
}

/// A store writes the same record as the memory store, attempt by attempt.
pub(crate) async fn is_the_same_in_every_store(store: &impl Store) {
    let (memory, key) = (MemoryStore::new(), key());
    // Every third attempt is sent again, at once or much later.
    for number in 0..100_u128 {
        let attempt = [number, number, number / 2][number as usize % 3];
        let counts = [
            store.count(&key, attempt, WINDOW).await.unwrap().attempt,
            memory.count(&key, attempt, WINDOW).await.unwrap().attempt,
        ];
        assert_eq!(counts[0], counts[1], "attempt {attempt}");
        let records = [
            store.get(&key).await.unwrap(),
            memory.get(&key).await.unwrap(),
        ];
        let [there, in_memory] = records.map(|entry| entry.unwrap().value);
        assert_eq!(there, in_memory);
    }
}

/// A store reads the records that the memory store reads, and refuses the rest without a change.
pub(crate) async fn is_read_as_strictly_as_in_memory(store: &impl Store) {
    let good = "idem1 C count=2 last=0000000000000001,0000000000000002\n";
    let many = |count: u64| {
        let last = vec!["0000000000000001"; 32].join(",");
        format!("idem1 C count={count} last={last}\n")
    };
    let mut refused = 0;
    for record in [
        good.to_owned(),
        many(32),
        many(33),
        many(999_999_999_999_998),
        many(999_999_999_999_999),
        many(1_000_000_000_000_000),
        many(31),
        String::new(),
        "3".to_owned(),
        good.trim_end().to_owned(),
        format!("{good}\n"),
        format!("{good}\0"),
        format!("{good}0000000000000003\n"),
        format!("{good}0000000000000003\n").replace("=2", "=3"),
        format!(" {good}"),
        format!("\0{good}"),
        format!("é{good}"),
        good.replace("idem1", "idem2"),
        good.replace("idem1", "IDEM1"),
        good.replace("=2", "=0"),
        good.replace("=2", "=02"),
        good.replace("=2", "=+2"),
        good.replace("=2", "=2.0"),
        good.replace("=2", "=0x2"),
        good.replace("=2", "=1"),
        good.replace("=2", "=3"),
        good.replace("=2", "=99999999999999999999999"),
        good.replace(",0", ",g"),
        good.replace(",0", ",F"),
        good.replace(",0", ",,"),
        good.replace("1,0", ",10"),
        good.replace("2\n", "\n"),
        good.replace("2\n", "22\n"),
        good.replace("2\n", "2,\n"),
        good.replace("=0", "=\0"),
        good.replace("=0", "=\\"),
        good.replace("=0", "=%"),
        good.replace("=0", "=*"),
        good.replace(',', ""),
        good.replace(',', "\n"),
    ] {
        let (key, memory) = (key(), MemoryStore::new());
        let record = Bytes::from(record);
        let stores: [&dyn Store; 2] = [store, &memory];
        let mut answers = Vec::new();
        for store in stores {
            store.claim(&key, &record, WINDOW).await.unwrap();
            let count = store.count(&key, 7, WINDOW).await;
            let record = store.get(&key).await.unwrap().unwrap();
            assert!(record.ttl.unwrap() <= WINDOW + Duration::from_millis(1));
            answers.push((count.map(|count| count.attempt), record.value));
        }
        let [(there, one), (in_memory, other)] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(one, other, "{record:?}");
        match (there, in_memory) {
            (Ok(number), Ok(same)) => assert_eq!(number, same, "{record:?}"),
            (Err(error), Err(same)) => {
                refused += 1;
                assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
                assert_eq!(same.kind(), StoreErrorKind::Misconfigured);
                assert_eq!(*one, record);
            }
            _ => panic!("{record:?}: {answers:?}"),
        }
    }
    assert_eq!(refused, 35);
}
