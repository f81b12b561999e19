//! Calls through a handle on each store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idempotent_runtime::store::Level;
use idempotent_runtime::{Error, Idempotency, Release, SetupError};
use idempotent_sql::sql::sqlx::Sqlite;
use tokio::task::JoinSet;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, connected, store};
use support::databases::Kind;
use support::equal_calls::assert_only_equal_calls_are_duplicates;
use support::exports::assert_exports_keep_their_permits;
use support::patient::patient;
use support::transfers::assert_crossing_transfers_end;

on_every_database! {
    a_call_is_replayed_to_its_duplicates
    a_released_call_runs_again
    crossing_transfers_end
    exports_keep_their_permits
    only_equal_calls_are_duplicates
    a_handle_is_made_from_a_url
    the_doctor_finds_no_problem
}

async fn pay(idempotency: &Idempotency, runs: &Arc<AtomicU32>) -> Result<u32, Error> {
    let runs = Arc::clone(runs);
    idempotency
        .call("orders.pay")
        .key("A-1")
        .ttl(TTL)
        .wait(MAX_WAIT)
        .replay()
        .run(async move { Ok(runs.fetch_add(1, Ordering::SeqCst) + 42) })
        .await
}

async fn a_call_is_replayed_to_its_duplicates<DB: Fresh>() {
    let store = store::<DB>().await;
    let runs = Arc::default();
    let mut calling = JoinSet::new();
    for _ in 0..20 {
        // Each call has its own handle, so that the calls meet only in the database.
        let (idempotency, runs) = (patient(store.clone()), Arc::clone(&runs));
        calling.spawn(async move { pay(&idempotency, &runs).await });
    }
    for answer in calling.join_all().await {
        assert_eq!(answer.unwrap(), 42);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

async fn a_released_call_runs_again<DB: Fresh>() {
    let idempotency = patient(store::<DB>().await);
    for run in 0..3 {
        let call = idempotency.call("orders.pay").key("A-1");
        let call = call.ttl(TTL).release(Release::Always);
        let answer: Result<_, Error> = call.run(async move { Ok(run) }).await;
        assert_eq!(answer.unwrap(), run);
    }
}

async fn crossing_transfers_end<DB: Fresh>() {
    let url = DB::url();
    let handle = async || patient(connected::<DB>(&url).await);
    assert_crossing_transfers_end([handle().await, handle().await]).await;
}

async fn exports_keep_their_permits<DB: Fresh>() {
    let url = DB::url();
    let store = async || connected::<DB>(&url).await;
    assert_exports_keep_their_permits([store().await, store().await]).await;
}

async fn only_equal_calls_are_duplicates<DB: Fresh>() {
    let url = DB::url();
    let handle = async || patient(connected::<DB>(&url).await);
    assert_only_equal_calls_are_duplicates([handle().await, handle().await]).await;
}

async fn a_handle_is_made_from_a_url<DB: Fresh>() {
    let url = DB::url();
    let runs = Arc::default();
    for _ in 0..2 {
        let builder = Idempotency::builder_from_url(&url).await.unwrap();
        let idempotency = builder.deadline(MAX_WAIT).build().unwrap();
        assert_eq!(pay(&idempotency, &runs).await.unwrap(), 42);
    }
}

async fn the_doctor_finds_no_problem<DB: Fresh>() {
    let diagnosis = patient(store::<DB>().await).doctor().await;
    assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
    let text = diagnosis.to_string();
    assert!(text.contains("durability is sql"), "{text}");
    assert!(text.contains("the tables are of version 1"), "{text}");
    assert!(text.contains("0 records have expired"), "{text}");
}

#[tokio::test]
async fn a_database_in_memory_is_enough_for_a_test() {
    let builder = Idempotency::builder_from_url("sqlite::memory:").await;
    let idempotency = builder.unwrap().deadline(MAX_WAIT).build().unwrap();
    let runs = Arc::default();
    for _ in 0..3 {
        assert_eq!(pay(&idempotency, &runs).await.unwrap(), 42);
    }
    let diagnosis = idempotency.doctor().await.to_string();
    assert!(diagnosis.contains("in memory"), "{diagnosis}");
}

#[tokio::test]
async fn the_schemes_mariadb_and_postgresql_are_accepted() {
    use idempotent_sql::sql::sqlx::{MySql, Postgres};

    for url in [
        MySql::url().replace("mysql:", "mariadb:"),
        Postgres::url().replace("postgres:", "postgresql:"),
        Sqlite::url().replace("sqlite:", "sqlite://"),
    ] {
        let made: Result<_, SetupError> = Idempotency::from_url(&url).await;
        made.unwrap();
    }
}
