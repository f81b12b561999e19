//! Operations of many callers in one request.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, cmd};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Store, StoreErrorKind};
use tokio::time::timeout;

use crate::store::servers::{MAX_WAIT, TTL, kind, next, send};
use support::dropping::victims_of_drops;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_drop_their_calls_refuse_no_other_caller() {
    let url = RedisServer::shared().unwrap().url();
    victims_of_drops(gathering(&url).await).await.assert_well();
}

static VALUE: Bytes = crate::store::servers::VALUE;
static DONE: Bytes = crate::store::servers::DONE;

/// A store whose operations gather as soon as a few callers use it.
pub(crate) async fn gathering(url: &str) -> RedisStore {
    let store = RedisStore::options().batch_above(2);
    store.connect(url).await.unwrap()
}

/// A store whose operations go in batches, because other callers use it all the time.
pub(crate) async fn crowded() -> RedisStore {
    let url = RedisServer::shared().unwrap().url();
    let store = gathering(&url).await;
    for _ in 0..6 {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("crowd:{}", next());
            loop {
                store.claim(&key, &VALUE, TTL).await.unwrap();
                store.remove(&key, &VALUE).await.unwrap();
            }
        });
    }
    tokio::task::yield_now().await;
    store
}

const MANY: usize = 400;

fn keys(name: &str) -> Vec<String> {
    (0..MANY).map(|key| format!("{name}:{key}")).collect()
}

/// How often the server has run a command.
pub(crate) async fn calls(server: &RedisServer, command: &str) -> usize {
    let stats = send(server, cmd("INFO").arg("commandstats")).await;
    let stats: String = redis::from_redis_value(stats).unwrap();
    let name = format!("cmdstat_{command}:calls=");
    let count = stats.split(&name).nth(1);
    let count = count.and_then(|rest| rest.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

async fn claim_all(store: &RedisStore, keys: &[String], value: &Bytes) -> Vec<Claim> {
    let claims = keys.iter().map(|key| store.claim(key, value, TTL));
    join_all(claims)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

async fn remove_all(store: &RedisStore, keys: &[String], value: &Bytes) -> Vec<Swap> {
    let removals = keys.iter().map(|key| store.remove(key, value));
    join_all(removals)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

#[tokio::test]
async fn many_operations_at_once_keep_their_own_answers() {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    let keys = keys("own");
    let values: Vec<_> = (0..MANY)
        .map(|at| Bytes::from(format!("value {at}")))
        .collect();
    // Every third key belongs to another caller.
    for key in keys.iter().step_by(3) {
        store.claim(key, &DONE, TTL).await.unwrap();
    }
    let claims = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| store.claim(key, value, TTL));
    for (at, claim) in join_all(claims).await.into_iter().enumerate() {
        let is_other = at % 3 == 0;
        let expected = if is_other {
            Claim::Taken(DONE.clone())
        } else {
            Claim::Claimed
        };
        assert_eq!(claim.unwrap(), expected, "{at}");
    }
    let replaced = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| store.replace(key, value, value, TTL));
    for (at, swap) in join_all(replaced).await.into_iter().enumerate() {
        let expected = if at % 3 == 0 {
            Swap::Other(DONE.clone())
        } else {
            Swap::Done
        };
        assert_eq!(swap.unwrap(), expected, "{at}");
    }
    let removals = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| store.remove(key, value));
    for (at, swap) in join_all(removals).await.into_iter().enumerate() {
        let expected = if at % 3 == 0 {
            Swap::Other(DONE.clone())
        } else {
            Swap::Done
        };
        assert_eq!(swap.unwrap(), expected, "{at}");
    }
    let removals = remove_all(&store, &keys, &DONE).await;
    let absent = removals
        .iter()
        .filter(|swap| **swap == Swap::Absent)
        .count();
    assert_eq!(absent, MANY - MANY.div_ceil(3));
}

#[tokio::test]
async fn removals_of_a_batch_are_one_command_unless_batches_are_off() {
    for batch in [true, false] {
        let server = RedisServer::start().unwrap();
        let options = RedisStore::options().batch(batch);
        let store = options.connect(&server.url()).await.unwrap();
        let keys = keys("few");
        claim_all(&store, &keys, &VALUE).await;
        let removals = remove_all(&store, &keys, &VALUE).await;
        assert!(removals.iter().all(|swap| *swap == Swap::Done));
        let scripts = calls(&server, "evalsha").await;
        let natives = calls(&server, "delifeq").await + calls(&server, "delex").await;
        if natives > 0 {
            assert!(natives >= MANY, "{natives}");
        } else if batch {
            assert!(scripts < MANY / 10, "{scripts}");
        } else {
            assert!(scripts >= MANY, "{scripts}");
        }
        assert_eq!(calls(&server, "set").await, MANY);
    }
}

#[tokio::test]
async fn the_url_switches_batches_off() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?batch=false", server.url());
    let store = gathering(&url).await;
    let keys = keys("off");
    claim_all(&store, &keys, &VALUE).await;
    remove_all(&store, &keys, &VALUE).await;
    let commands = ["evalsha", "delifeq", "delex"];
    let mut removals = 0;
    for command in commands {
        removals += calls(&server, command).await;
    }
    assert!(removals >= MANY, "{removals}");
}

#[tokio::test]
async fn a_key_of_another_type_fails_alone() {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    let keys = keys("list");
    send(&server, cmd("LPUSH").arg(&keys[200]).arg("element")).await;
    let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await;
    let removals = join_all(keys.iter().map(|key| store.remove(key, &VALUE))).await;
    for (at, (claim, removal)) in claims.into_iter().zip(removals).enumerate() {
        if at == 200 {
            assert_eq!(kind(claim), StoreErrorKind::Misconfigured);
            let error = removal.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.location().is_some(), "{error}");
        } else {
            assert_eq!(claim.unwrap(), Claim::Claimed, "{at}");
            assert_eq!(removal.unwrap(), Swap::Done, "{at}");
        }
    }
}

#[tokio::test]
async fn a_long_value_of_another_program_is_read_alone() {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    store.longest_record(6_000);
    let keys = keys("long");
    claim_all(&store, &keys, &VALUE).await;
    let long = vec![b'x'; 5_000];
    send(&server, cmd("SET").arg(&keys[7]).arg(&long)).await;
    let removals = remove_all(&store, &keys, &VALUE).await;
    for (at, removal) in removals.into_iter().enumerate() {
        let expected = if at == 7 {
            Swap::Other(long.clone().into())
        } else {
            Swap::Done
        };
        assert_eq!(removal, expected, "{at}");
    }
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_costs_one_repetition() {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    let keys = keys("lost");
    for _ in 0..3 {
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        claim_all(&store, &keys, &VALUE).await;
        let replaced = keys
            .iter()
            .map(|key| store.replace(key, &VALUE, &DONE, TTL));
        for swap in join_all(replaced).await {
            assert_eq!(swap.unwrap(), Swap::Done);
        }
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        let removals = remove_all(&store, &keys, &DONE).await;
        assert!(removals.iter().all(|swap| *swap == Swap::Done));
    }
}

#[tokio::test]
async fn a_batch_without_an_answer_delays_no_renewal() {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = gathering(&proxy.url()).await;
    store.claim("held", &VALUE, TTL).await.unwrap();
    proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
    let keys = keys("hung");
    let claims = {
        let store = store.clone();
        tokio::spawn(async move { claim_all(&store, &keys, &VALUE).await })
    };
    while !proxy.traffic().fault_applied {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The claims wait for ever, and a renewal has its own connection.
    let renewal = timeout(MAX_WAIT, store.replace("held", &VALUE, &VALUE, TTL));
    assert_eq!(renewal.await.unwrap().unwrap(), Swap::Done);
    assert!(!claims.is_finished());
    claims.abort();
}

#[tokio::test]
async fn callers_that_give_up_make_the_store_reconnect() {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = gathering(&proxy.url()).await;
    proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
    let keys = keys("given up");
    // One caller waits for ever, and does not keep the connection.
    let patient = {
        let (store, key) = (store.clone(), format!("patient:{}", next()));
        tokio::spawn(async move { store.claim(&key, &VALUE, TTL).await })
    };
    let claims = claim_all(&store, &keys, &VALUE);
    assert!(timeout(Duration::from_millis(250), claims).await.is_err());
    let again = async {
        loop {
            let claim = store.claim("again", &VALUE, TTL);
            if let Ok(Ok(_)) = timeout(Duration::from_millis(250), claim).await {
                return;
            }
        }
    };
    timeout(MAX_WAIT, again).await.unwrap();
    patient.abort();
}

#[tokio::test]
async fn a_claim_that_is_dropped_and_its_removal_leave_nothing() {
    let server = RedisServer::start().unwrap();
    let store = gathering(&server.url()).await;
    for round in 0..200_u32 {
        let keys: Vec<_> = (0..20).map(|key| format!("drop:{round}:{key}")).collect();
        let claims = keys.iter().map(|key| store.claim(key, &VALUE, TTL));
        // Some claims are dropped in the queue, some in flight, and some after the answer.
        let _ = timeout(
            Duration::from_micros(u64::from(round) * 20),
            join_all(claims),
        )
        .await;
        remove_all(&store, &keys, &VALUE).await;
    }
    let left = send(&server, &cmd("DBSIZE")).await;
    assert_eq!(redis::from_redis_value::<usize>(left).unwrap(), 0);
}
