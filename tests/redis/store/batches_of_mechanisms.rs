//! Operations of tokens, counters, seen-sets and Bloom filters in batches. Many of them use one key.

use std::collections::HashSet;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Future, join_all, poll_immediate};
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::store::{BloomFilter, Claim, Hint, Swap};
use idempotent_runtime::{Store, StoreError, StoreErrorKind};

use tokio::time::timeout;

use crate::store::batches::{calls, gathering};
use crate::store::servers::{MAX_WAIT, TTL, kind, send};

static VALUE: Bytes = crate::store::servers::VALUE;
static DONE: Bytes = crate::store::servers::DONE;

const MANY: usize = 400;
const WINDOW: Duration = Duration::from_hours(1);

/// A server that has the scripts. A script that a server does not have is sent again, after other operations.
async fn private() -> (RedisServer, RedisStore) {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    let filter = filter("{other filter}");
    // Alone, and then together: there is a script for one operation and a script for many.
    for number in [1, 20] {
        let each = |at: usize| {
            let (store, filter, key) = (&store, &filter, format!("other:{at}"));
            async move {
                let member = member(at);
                store.count(&key, 1, WINDOW).await.unwrap();
                store
                    .set_remove("set", &member, &VALUE, WINDOW)
                    .await
                    .unwrap();
                let _ = store.bloom_insert(filter, &member).await.unwrap();
                store.exchange(&key, &VALUE, &DONE).await.unwrap();
            }
        };
        join_all((0..number).map(each)).await;
    }
    (server, store)
}

fn filter(key: &str) -> BloomFilter {
    BloomFilter {
        key: key.to_owned(),
        capacity: 100_000,
        error_rate: 0.000_1,
        retention: WINDOW,
    }
}

fn member(number: usize) -> [u8; 8] {
    number.to_be_bytes()
}

#[tokio::test]
async fn attempts_at_one_counter_at_once_are_numbered_in_the_order_of_their_callers() {
    let (_server, store) = private().await;
    for round in 0..3 {
        let attempts = (0..MANY).map(|at| store.count("page", (round * MANY + at) as u128, WINDOW));
        let numbers: Vec<_> = join_all(attempts)
            .await
            .into_iter()
            .map(|count| count.unwrap().attempt)
            .collect();
        let first = round as u64 * MANY as u64 + 1;
        assert_eq!(numbers, (first..).take(MANY).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn attempts_whose_replies_are_lost_together_keep_their_numbers() {
    let (server, _) = private().await;
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = gathering(&proxy.url()).await;
    // As many as a counter remembers.
    let attempts = || (1..=32).map(|attempt| store.count("page", attempt, WINDOW));
    proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
    let lost = timeout(Duration::from_secs(1), join_all(attempts())).await;
    assert!(lost.is_err(), "the replies are lost");
    let counted = async {
        // Until the store has another connection.
        while proxy_is_silent(&store).await {}
        let mut numbers = HashSet::new();
        for count in join_all(attempts()).await {
            assert!(numbers.insert(count.unwrap().attempt));
        }
        assert_eq!(numbers, (1..=32).collect());
    };
    timeout(MAX_WAIT, counted).await.unwrap();
}

async fn proxy_is_silent(store: &RedisStore) -> bool {
    let answer = timeout(Duration::from_millis(250), store.get("other")).await;
    !matches!(answer, Ok(Ok(_)))
}

#[tokio::test]
async fn of_many_adds_of_each_member_at_once_one_is_the_first() {
    let (_server, store) = private().await;
    let owners: Vec<_> = (0..MANY).map(|at| Bytes::from(format!("{at}"))).collect();
    let adds = owners.iter().enumerate().map(|(at, owner)| {
        let store = &store;
        async move {
            store
                .set_insert("{set}", &member(at % 40), owner, WINDOW)
                .await
        }
    });
    for (at, claim) in join_all(adds).await.into_iter().enumerate() {
        let expected = if at < 40 {
            Claim::Claimed
        } else {
            Claim::Taken(owners[at % 40].clone())
        };
        assert_eq!(claim.unwrap(), expected, "{at}");
    }
    let removals = owners.iter().enumerate().map(|(at, owner)| {
        let store = &store;
        async move {
            store
                .set_remove("{set}", &member(at % 40), owner, WINDOW)
                .await
        }
    });
    for (at, removal) in join_all(removals).await.into_iter().enumerate() {
        let expected = if at < 40 { Swap::Done } else { Swap::Absent };
        assert_eq!(removal.unwrap(), expected, "{at}");
    }
}

#[tokio::test]
async fn of_many_marks_of_each_member_at_once_the_first_is_unseen() {
    let (_server, store) = private().await;
    let filter = filter("{filter}");
    let members: Vec<_> = (0..MANY).map(|at| member(at % 40)).collect();
    let marks = members
        .iter()
        .map(|member| store.bloom_insert(&filter, member));
    for (at, hint) in join_all(marks).await.into_iter().enumerate() {
        let expected = if at < 40 {
            Hint::Unseen
        } else {
            Hint::PerhapsSeen
        };
        assert_eq!(hint.unwrap(), expected, "{at}");
    }
}

#[tokio::test]
async fn of_many_exchanges_of_each_token_at_once_one_is_done() {
    let (_server, store) = private().await;
    let keys: Vec<_> = (0..40).map(|at| format!("token:{at}")).collect();
    for key in &keys {
        assert_eq!(store.claim(key, &VALUE, TTL).await.unwrap(), Claim::Claimed);
    }
    let owners: Vec<_> = (0..MANY).map(|at| Bytes::from(format!("{at}"))).collect();
    let exchanges = owners
        .iter()
        .enumerate()
        .map(|(at, owner)| store.exchange(&keys[at % 40], &VALUE, owner));
    let mut done = HashSet::new();
    for (at, swap) in join_all(exchanges).await.into_iter().enumerate() {
        match swap.unwrap() {
            Swap::Done => assert!(done.insert(at % 40), "{at}"),
            Swap::Other(other) => assert_ne!(other, owners[at]),
            Swap::Absent => panic!("{at}"),
        }
    }
    assert_eq!(done.len(), 40);
}

#[tokio::test]
async fn a_key_of_another_program_fails_its_own_operations_only() {
    let (server, store) = private().await;
    send(&server, cmd("LPUSH").arg("list").arg("element")).await;
    let filter = filter("{filter}");
    let operations = (0..MANY).map(|at| {
        let (store, filter) = (&store, &filter);
        async move {
            let is_foreign = at % 7 == 0;
            let key = if is_foreign { "list" } else { "page" };
            let result = match at % 3 {
                0 => store.exchange(key, &VALUE, &DONE).await.map(drop),
                1 => store.count(key, at as u128, WINDOW).await.map(drop),
                _ => {
                    return store
                        .bloom_insert(filter, &member(at))
                        .await
                        .map(drop)
                        .unwrap();
                }
            };
            if is_foreign {
                assert_eq!(kind(result), StoreErrorKind::Misconfigured, "{at}");
            } else {
                result.unwrap();
            }
        }
    });
    join_all(operations).await;
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_costs_one_repetition_of_each() {
    let (server, store) = private().await;
    let filter = filter("{filter}");
    for round in 0..3 {
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        let attempts = (0..MANY).map(|at| store.count("page", (round * MANY + at) as u128, WINDOW));
        let mut numbers = HashSet::new();
        for count in join_all(attempts).await {
            assert!(numbers.insert(count.unwrap().attempt));
        }
        let members: Vec<_> = (0..MANY).map(|at| member(round * MANY + at)).collect();
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        let marks = members
            .iter()
            .map(|member| store.bloom_insert(&filter, member));
        for hint in join_all(marks).await {
            assert_eq!(hint.unwrap(), Hint::Unseen);
        }
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        let adds = members
            .iter()
            .map(|member| store.set_insert("{set}", member, &DONE, WINDOW));
        for claim in join_all(adds).await {
            assert_eq!(claim.unwrap(), Claim::Claimed);
        }
    }
}

type Operation<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + 'a>>;

/// Proves that the operations wait in the queue: unbatched, each is sent at its first poll.
#[tokio::test]
async fn operations_that_are_dropped_in_the_queue_are_not_sent() {
    let (server, store) = private().await;
    let (store, filter) = (&store, &filter("{filter}"));
    let operation = |which: usize, at: usize| -> Operation<'_> {
        Box::pin(async move {
            match which {
                0 => store.count("page", at as u128, WINDOW).await.map(drop),
                1 => {
                    let member = member(at);
                    store
                        .set_insert("{set}", &member, &VALUE, WINDOW)
                        .await
                        .map(drop)
                }
                2 => {
                    let member = member(at);
                    store
                        .set_remove("{set}", &member, &VALUE, WINDOW)
                        .await
                        .map(drop)
                }
                3 => store.bloom_insert(filter, &member(at)).await.map(drop),
                _ => store
                    .exchange(&format!("token:{at}"), &VALUE, &DONE)
                    .await
                    .map(drop),
            }
        })
    };
    for which in 0..5 {
        send(&server, cmd("CONFIG").arg("RESETSTAT")).await;
        let operations = join_all((0..MANY).map(|at| operation(which, at)));
        assert!(poll_immediate(operations).await.is_none());
        // Its answer comes after the answers to all that was sent before.
        operation(which, MANY).await.unwrap();
        let sent = calls(&server, "evalsha").await;
        assert!(sent < MANY / 10, "operation {which}: {sent}");
    }
}
