//! A connection that is cut, or a server that is killed, at each message of a batch, one after the other.

use std::time::Duration;

use futures_util::future::{join, join_all};
use idempotence_test_servers::PostgresServer;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Idempotency, Release, Store, StoreError, StoreErrorKind};
use idempotent_sql::SqlStore;
use idempotent_sql::sql::sqlx::pool::PoolOptions;
use idempotent_sql::sql::sqlx::{Connection, Postgres};
use tokio::task::spawn_blocking;
use url::Url;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, connected};
use support::wire::{Point, Wire};

static VALUE: bytes::Bytes = crate::store::databases::VALUE;

on_every_server! {
    a_batch_that_is_cut_at_any_message_is_neither_lost_nor_answered_wrongly
    a_batch_of_counts_that_is_cut_at_any_message_counts_each_attempt_once
    a_call_with_several_keys_that_is_cut_at_any_message_holds_all_of_them_and_frees_them
}

/// A store with one connection, which goes through this wire. `None`: the connection failed before it was usable. `wait`: how
/// long a change waits for a connection.
pub(super) async fn through<DB: Fresh>(
    wire: &Wire,
    url: &str,
    wait: Duration,
) -> Option<SqlStore<DB>> {
    let options = wire.url(url).parse();
    let options: <DB::Connection as Connection>::Options = options.unwrap();
    let pool = PoolOptions::<DB>::new().max_connections(1);
    let pool = pool.acquire_timeout(wait);
    let pool = pool.test_before_acquire(false).connect_lazy_with(options);
    pool.acquire().await.ok()?;
    Some(SqlStore::new(pool))
}

/// How many connections are cut at the same time. Each is to its own database.
const LANES: usize = 6;

/// Cuts the connection of a store at each message, while `test` uses the store. Its other arguments are a store that is not
/// cut, and a text that differs each time.
async fn cut_at_each_message<DB: Fresh>(test: impl AsyncFn(&SqlStore<DB>, &SqlStore<DB>, String)) {
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let url = DB::url();
        lanes.push((connected::<DB>(&url).await, url));
    }
    let cut = async |(direct, url): &(SqlStore<DB>, String), point| {
        let port = url.parse::<Url>().unwrap().port().unwrap();
        let wire = Wire::cut(port, point);
        let store = through::<DB>(&wire, url, Duration::from_secs(20)).await;
        let store = store?;
        test(&store, direct, format!("{point:?}")).await;
        store.pool().close().await;
        drop(store);
        Some(wire.reached())
    };
    let (mut points, mut cuts) = (Point::all(), 0);
    loop {
        let points: Vec<_> = points.by_ref().take(LANES).collect();
        let lanes = lanes.iter().zip(points);
        let reached = join_all(lanes.map(|(lane, point)| cut(lane, point))).await;
        cuts += reached.iter().filter(|cut| **cut == Some(true)).count();
        if reached.contains(&Some(false)) {
            break;
        }
    }
    // Three points at each message of the single statements and of the batches.
    assert!(cuts > 15, "{cuts}");
}

/// The changes are sent again on other connections. A change whose answer was lost may find its own work.
async fn a_batch_that_is_cut_at_any_message_is_neither_lost_nor_answered_wrongly<DB: Fresh>() {
    cut_at_each_message::<DB>(async |store, direct, point| {
        let keys: Vec<_> = (0..20).map(|key| format!("{point} {key}")).collect();
        let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL)));
        for claim in claims.await {
            assert_eq!(claim.unwrap(), Claim::Claimed, "{point}");
        }
        for key in &keys {
            let stored = direct.get(key).await.unwrap();
            assert_eq!(stored.unwrap().value, VALUE, "{point}");
        }
        let renewals = keys
            .iter()
            .map(|key| store.replace(key, &VALUE, &VALUE, TTL));
        for renewal in join_all(renewals).await {
            assert_eq!(renewal.unwrap(), Swap::Done, "{point}");
        }
        let removals = join_all(keys.iter().map(|key| store.remove(key, &VALUE)));
        for removal in removals.await {
            let removal = removal.unwrap();
            assert!([Swap::Done, Swap::Absent].contains(&removal), "{point}");
        }
        for key in &keys {
            let stored = direct.get(key).await.unwrap();
            assert!(stored.is_none(), "{point}");
        }
    })
    .await;
}

/// The counts are sent again, although the first time may be committed, while another process counts under the same keys.
async fn a_batch_of_counts_that_is_cut_at_any_message_counts_each_attempt_once<DB: Fresh>() {
    cut_at_each_message::<DB>(async |store, direct, point| {
        let counts = |store: &SqlStore<DB>, first: u128| {
            let (store, point) = (store.clone(), point.clone());
            let counts = (0..20).map(move |at| {
                let (store, key) = (store.clone(), format!("{point} {}", at % 2));
                async move {
                    let count = store.count(&key, first + at, TTL).await.unwrap();
                    (at % 2, count.attempt)
                }
            });
            join_all(counts)
        };
        let both = join(counts(store, 0x1000), counts(direct, 0x2000));
        let (mut numbers, others) = both.await;
        numbers.extend(others);
        numbers.sort_unstable();
        let expected = (0..2).flat_map(|key| (1..=20).map(move |number| (key, number)));
        assert!(numbers.into_iter().eq(expected), "{point}");
    })
    .await;
}

async fn a_call_with_several_keys_that_is_cut_at_any_message_holds_all_of_them_and_frees_them<
    DB: Fresh,
>() {
    cut_at_each_message::<DB>(async |store, direct, point| {
        let builder = Idempotency::builder(store.clone());
        let handle = builder.deadline(Duration::from_secs(30)).build().unwrap();
        let keys = async || {
            let page = direct.list("idem:", None, 10).await.unwrap();
            page.unwrap().records.len()
        };
        // The second call uses prepared statements.
        for _ in 0..2 {
            let call = handle.call("accounts.transfer").key("from").also("to");
            let call = call.also("fees").ttl(TTL).release(Release::Always);
            let body = async {
                assert_eq!(keys().await, 3, "{point}");
                Ok::<_, Error>(())
            };
            call.run(body)
                .await
                .unwrap_or_else(|error| panic!("{point}: {error:?}"));
            handle.drain(MAX_WAIT).await.unwrap();
            assert_eq!(keys().await, 0, "{point}");
        }
    })
    .await;
}

/// An acknowledged claim is stored, and a claim that is reported as not applied is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_at_any_message_of_a_batch_keeps_what_it_acknowledged() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    connected::<Postgres>(&url).await;
    let (mut kills, mut unknown) = (0, 0);
    let mut points = Point::all().filter(|point| !matches!(point, Point::Lost(_)));
    let mut point = points.next().unwrap();
    let mut tries = 0;
    for attempt in 0.. {
        // On a slow machine a connection may need more time than a change waits.
        let (store, wire) = loop {
            let wire = Wire::to(server.port(), point);
            let store = through::<Postgres>(&wire, &url, Duration::from_millis(300)).await;
            if store.is_some() || wire.reached() {
                break (store, wire);
            }
        };
        let Some(store) = store else {
            (point, tries) = (points.next().unwrap(), 0);
            continue;
        };
        let keys = (0..20).map(|key| format!("{attempt} {point:?} {key}"));
        let keys: Vec<_> = keys.collect();
        let mut claiming = tokio::spawn({
            let keys = keys.clone();
            async move { join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await }
        });
        let (reached, claims) = tokio::select! {
            wire = spawn_blocking(move || wire.reached().then_some(wire)) => (wire.unwrap(), None),
            claims = &mut claiming => (None, Some(claims)),
        };
        let Some(wire) = reached else {
            let claims = match claims {
                Some(claims) => claims,
                None => claiming.await,
            };
            let failed = claims.unwrap().into_iter().filter_map(Result::err);
            let failed: Vec<_> = failed.collect();
            if failed.is_empty() {
                // The calls ended before this message.
                break;
            }
            // On a slow machine a change may wait for the connection for too long.
            let mut kinds = failed.iter().map(StoreError::kind);
            let was_never_sent = kinds.all(|kind| kind == StoreErrorKind::NotApplied);
            tries += 1;
            assert!(was_never_sent && tries < 20, "{point:?}: {failed:?}");
            continue;
        };
        wire.deliver();
        server.kill().unwrap();
        let claims = claiming.await.unwrap();
        server.restart().unwrap();
        let direct = connected::<Postgres>(&url).await;
        for (key, claim) in keys.iter().zip(claims) {
            let is_stored = direct.get(key).await.unwrap().is_some();
            match claim {
                Ok(claim) => assert!(
                    claim == Claim::Claimed && is_stored,
                    "{key}: {claim:?}, stored: {is_stored}"
                ),
                Err(error) if error.kind() == StoreErrorKind::NotApplied => {
                    assert!(!is_stored, "{key}");
                }
                Err(_) => unknown += 1,
            }
        }
        kills += 1;
        (point, tries) = (points.next().unwrap(), 0);
    }
    assert!(kills > 5 && unknown > 0, "{kills} {unknown}");
}
