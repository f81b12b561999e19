//! The permissions of `SECURITY.md` are enough for every operation: the server refuses nothing that is not optional.

use std::time::Duration;

use idempotence::testkit::conformance;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, Value, cmd};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::Hint;
use idempotent_runtime::{Error, FirstTime, GuardedCall, Idempotency, OrderNumbers, Placed};
use support::patient::patient;
use tokio::sync::oneshot;

use crate::store::servers::{MAX_WAIT, TTL, is_listened_to, send, url_of_user};

const PAGE: &str = include_str!("../../../SECURITY.md");

/// A store of a user with the permissions of the page, and those of these rows of its table.
async fn store(server: &RedisServer, rows: &[&str], keys: &str) -> RedisStore {
    let (_, rules) = PAGE.split_once("ACL SETUSER idempotence ").unwrap();
    let (rules, _) = rules.split_once('\n').unwrap();
    let mut rules = rules
        .replace(">password", ">s3cret")
        .replace("idem:*", keys);
    for row in rows {
        let (_, row) = PAGE.split_once(&format!("| {row} | `")).expect(row);
        rules = format!("{rules} {}", row.split_once('`').unwrap().0);
    }
    let rules: Vec<_> = rules.split(' ').collect();
    send(
        server,
        cmd("ACL").arg("SETUSER").arg("idempotence").arg(&rules),
    )
    .await;
    RedisStore::connect(&url_of_user(server, "idempotence"))
        .await
        .unwrap()
}

fn pay(handle: &Idempotency) -> GuardedCall {
    handle.call("orders.pay").key(&42).ttl(TTL).wait(MAX_WAIT)
}

/// Commands of new servers: removals that the page calls optional, and the name of the client.
const OPTIONAL: [&str; 3] = ["cmd=delifeq ", "cmd=delex ", "cmd=client|setinfo "];

async fn assert_nothing_was_refused(server: &RedisServer) {
    let refusals = send(server, cmd("ACL").arg("LOG")).await;
    let mut refusals: Vec<Value> = redis::from_redis_value(refusals).unwrap();
    refusals.retain(|refusal| {
        let refusal = format!("{refusal:?}");
        !OPTIONAL.iter().any(|optional| refusal.contains(optional))
    });
    assert_eq!(refusals, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_permits_calls_tokens_counters_seen_sets_and_order_numbers() {
    let servers = [RedisServer::start().unwrap()];
    let server = &servers[0];
    let handle = patient(store(server, &[], "idem:*").await);
    let there = patient(store(server, &[], "idem:*").await);

    let (runs, begun) = oneshot::channel();
    let (end, ends) = oneshot::channel();
    let first = pay(&handle).replay().run(async move {
        runs.send(()).unwrap();
        ends.await.unwrap();
        Ok::<_, Error>(7)
    });
    let first = tokio::spawn(first);
    begun.await.unwrap();
    let never = async { panic!("the body of a duplicate ran") };
    let second = pay(&there).replay().run(never);
    let second = tokio::spawn(async move {
        let result: Result<i32, Error> = second.await;
        result.unwrap()
    });
    let key = format!("idem:orders.pay:{}", Fingerprint::of(&(42,)).unwrap());
    is_listened_to(&servers, &key).await;
    end.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 7);
    assert_eq!(second.await.unwrap(), 7);
    let peek = handle.peek("orders.pay", &(42,)).await.unwrap();
    handle.forget(&peek.unwrap()).await.unwrap();

    let token = handle
        .tokens()
        .issue(&7, "orders.submit", TTL)
        .await
        .unwrap();
    let redeemed = handle
        .tokens()
        .redeem(token.as_str(), &7, "orders.submit")
        .await;
    assert!(redeemed.unwrap().give_back().await.unwrap());

    let counter = handle.counter("pages.submit", 1, TTL).unwrap();
    counter.attempt("page").await.unwrap();
    counter.attempt("page").await.unwrap_err();

    let seen = handle.seen_set("invoices", TTL).unwrap();
    let FirstTime::Yes(added) = seen.first_time("invoice").await.unwrap() else {
        panic!("the invoice is new");
    };
    assert!(added.take_back().await.unwrap());

    let secret = "a secret of 16 bytes at least";
    let numbers = OrderNumbers::new(&handle, "orders", secret).await.unwrap();
    let number = numbers.issue(&7).unwrap();
    let placed = numbers.redeem(number.as_str(), &7, async |_, _| {
        Ok::<_, Error>(Placed::New(()))
    });
    assert_eq!(placed.await.unwrap(), Placed::New(()));
    assert_nothing_was_refused(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_permits_fences_and_filters() {
    let server = RedisServer::start().unwrap();
    let handle = patient(store(&server, &["fences"], "idem:*").await);
    let call = handle.call("orders.pack").key(&7).ttl(TTL).fence();
    let fence = call.run_with(async |cx| cx.try_fence()).await.unwrap();
    assert!(fence > 0);
    assert_nothing_was_refused(&server).await;

    let server = RedisServer::start().unwrap();
    let handle = patient(store(&server, &["Bloom filters"], "idem:*").await);
    let filter = handle
        .bloom("orders.no", 1000, 0.01, Duration::from_hours(1))
        .unwrap();
    assert_eq!(filter.hint("1").await.unwrap(), Hint::Unseen);
    assert_eq!(filter.stats().await.unwrap().unwrap().members, 1);
    assert_nothing_was_refused(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_permits_every_operation_of_the_conformance_suite() {
    let server = RedisServer::start().unwrap();
    let rows = ["fences", "Bloom filters", "optional: to list keys"];
    let store = store(&server, &rows, "*").await;
    let failures = conformance::failures(async || store.clone()).await;
    assert!(failures.is_empty(), "{failures:?}");
    assert_nothing_was_refused(&server).await;
}
