//! Records that are longer than any record of the library.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{FromRedisValue as _, cmd};
use idempotent_runtime::store::{Bytes, Claim, Entry, Swap};
use idempotent_runtime::{AnyIntent, Error, Idempotency, IdempotencyContext, Store};

use crate::store::servers::{DONE, MAX_WAIT, TTL, VALUE, by_script, connection_to, send};

const LONGEST: usize = 1000;
const MEBIBYTE: usize = 1024 * 1024;

/// The number of bytes that are read of a longer record: one more than the longest record has.
fn is_cut(stored: &Bytes) {
    assert_eq!(stored.len(), LONGEST + 1);
    assert!(stored.iter().all(|byte| *byte == b'x'));
}

async fn reads_no_more_than_it_needs(store: impl Store, server: &RedisServer) {
    // Much longer than a message of the network.
    let huge = vec![b'x'; 10 * MEBIBYTE];
    send(
        server,
        cmd("SET").arg("key").arg(&huge).arg("PX").arg(600_000),
    )
    .await;
    let bytes = Bytes::from(huge);
    let Some(Entry { value, .. }) = store.get("key").await.unwrap() else {
        panic!("a record is stored");
    };
    assert_eq!(value, bytes, "no handle has set how long a record may be");

    store.longest_record(LONGEST / 2);
    store.longest_record(LONGEST);
    store.longest_record(LONGEST / 2);
    // The second claim knows that the key has a long record.
    for _ in 0..2 {
        let Claim::Taken(stored) = store.claim("key", &VALUE, TTL).await.unwrap() else {
            panic!("a record is stored");
        };
        is_cut(&stored);
    }
    let replaced = store.replace("key", &VALUE, &DONE, TTL).await.unwrap();
    let exchanged = store.exchange("key", &VALUE, &DONE).await.unwrap();
    let removed = store.remove("key", &VALUE).await.unwrap();
    for swap in [replaced, exchanged, removed] {
        let Swap::Other(stored) = swap else {
            panic!("a record is stored: {swap:?}");
        };
        is_cut(&stored);
    }
    is_cut(&store.get("key").await.unwrap().unwrap().value);

    for longest in [&[b'x'; LONGEST][..], b"", b"x"] {
        send(
            server,
            cmd("SET").arg("key").arg(longest).arg("PX").arg(600_000),
        )
        .await;
        let claim = store.claim("key", &VALUE, TTL).await.unwrap();
        assert_eq!(claim, Claim::Taken(Bytes::copy_from_slice(longest)));
        let entry = store.get("key").await.unwrap().unwrap();
        assert_eq!(entry.value, longest);
    }
}

#[tokio::test]
async fn an_oversized_record_is_cut() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    reads_no_more_than_it_needs(store, &server).await;
    reads_no_more_than_it_needs(by_script(&server).await, &server).await;
    let connection = connection_to(&server).await;
    let store = RedisStore::from_connection(connection).await.unwrap();
    reads_no_more_than_it_needs(store, &server).await;
}

#[tokio::test]
async fn a_call_that_finds_a_huge_record_is_refused() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let idempotency = Idempotency::builder(store).deadline(MAX_WAIT);
    let idempotency = idempotency.build().unwrap();
    let run = async || {
        let call = idempotency
            .call("test")
            .key(&1)
            .ttl(Duration::from_hours(1))
            .replay();
        call.run(async { Ok::<_, Error>(1) }).await
    };
    run().await.unwrap();
    let keys = send(&server, cmd("KEYS").arg("*")).await;
    let keys = Vec::<String>::from_redis_value(keys).unwrap();
    let huge = vec![b'x'; 10 * MEBIBYTE];
    send(&server, cmd("SET").arg(&keys).arg(&huge).arg("KEEPTTL")).await;
    for _ in 0..3 {
        let refused = run().await.unwrap_err();
        assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    }
    let refused = idempotency.peek("test", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
}

#[tokio::test]
async fn steps_that_a_handle_cannot_read_are_not_reported_as_absent() {
    let server = RedisServer::start().unwrap();
    let handle = async |largest_result: usize| {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let idempotency = Idempotency::builder(store).deadline(MAX_WAIT);
        let idempotency = idempotency.largest_result(largest_result);
        idempotency.build().unwrap()
    };
    let (large, small) = (handle(4 * MEBIBYTE).await, handle(MEBIBYTE).await);
    let call = large.call("trips.book").key(&1).ttl(TTL);
    let failed = call
        .run_with(async |cx: IdempotencyContext<AnyIntent>| {
            let ticket = cx.step("flight", async || Ok::<_, Error>("x".repeat(2 * MEBIBYTE)));
            ticket.await?;
            cx.step("flight", async || Ok::<_, Error>(1)).await
        })
        .await;
    assert!(matches!(failed, Err(Error::InvalidPolicy(_))), "{failed:?}");
    let refused = small.forget_steps("trips.book", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
    assert!(refused.to_string().contains("largest_result"), "{refused}");
    assert!(large.forget_steps("trips.book", &(1,)).await.unwrap());
    assert!(!small.forget_steps("trips.book", &(1,)).await.unwrap());
}
