//! Updates that apply only to the version that was read.

use std::sync::Arc;

use idempotent_sql::sql::{self, Versioned, VersionedUpdate};
use sqlx::Error;
use tokio::sync::Barrier;

use crate::layers::databases::Subject;
use crate::layers::tables::{goods, stock};

on_every_database! {
    an_update_that_is_sent_again_is_applied_once
    an_update_that_is_sent_again_with_a_new_version_is_applied_twice
    a_column_can_be_set_and_a_missing_row_is_not_found
    a_violated_check_is_an_error_and_changes_nothing
    an_invalid_update_is_refused
    one_of_many_updates_of_one_version_is_applied
}

const RACERS: usize = 20;

/// Sells one piece of good 2, for a caller that has read this version.
fn sell<DB: Subject>(version: i64) -> VersionedUpdate<'static, DB> {
    sql::versioned_update("goods")
        .id("good_id", 2)
        .version("version", version)
        .add("count", -1)
}

async fn an_update_that_is_sent_again_is_applied_once<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    let first = sell(1).run(&mut tx).await.unwrap();
    assert_eq!(first, Versioned::Applied { version: 2 });
    let again = sell(1).run(&mut tx).await.unwrap();
    assert_eq!(again, Versioned::Conflict { current: 2 });
    tx.commit().await.unwrap();
    assert_eq!(stock(&fresh).await, (9, 2));
}

/// The mistake that the documentation describes.
async fn an_update_that_is_sent_again_with_a_new_version_is_applied_twice<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for version in [1, 2] {
        let update = sell(version).run(&mut connection).await.unwrap();
        let version = version + 1;
        assert_eq!(update, Versioned::Applied { version });
    }
    assert_eq!(stock(&fresh).await, (8, 3));
}

async fn a_column_can_be_set_and_a_missing_row_is_not_found<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let set = |good: i32| {
        let update = sql::versioned_update("goods").id("good_id", good);
        update.version("version", 1).set("count", 5)
    };
    let applied = set(2).run(&mut connection).await.unwrap();
    assert_eq!(applied, Versioned::Applied { version: 2 });
    assert_eq!(stock(&fresh).await, (5, 2));
    let missing = set(3).run(&mut connection).await.unwrap();
    assert_eq!(missing, Versioned::NotFound);
}

async fn a_violated_check_is_an_error_and_changes_nothing<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let all = sql::versioned_update("goods").id("good_id", 2);
    let all = all.version("version", 1).add("count", -11);
    let error = all.run(&mut connection).await.unwrap_err();
    let error = error.as_database_error().unwrap();
    assert!(error.is_check_violation(), "{error}");
    assert_eq!(stock(&fresh).await, (10, 1));
}

async fn an_invalid_update_is_refused<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for refused in [
        sell(i64::MAX),
        sell(1).set("version", 7),
        sell(1).set("count", 7),
        sql::versioned_update("goods")
            .id("good_id", 2)
            .set("count", 7),
        sql::versioned_update("goods")
            .version("version", 1)
            .set("count", 7),
    ] {
        let error = refused.run(&mut connection).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    assert_eq!(stock(&fresh).await, (10, 1));
}

async fn one_of_many_updates_of_one_version_is_applied<DB: Subject>() {
    let fresh = goods::<DB>().await;
    let barrier = Arc::new(Barrier::new(RACERS));
    let race = (0..RACERS).map(|_| {
        let (pool, barrier) = (fresh.pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            barrier.wait().await;
            let update = sell(1).run(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
            update
        })
    });
    let mut applied = 0;
    for racer in race.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Versioned::Applied { version: 2 } => applied += 1,
            other => assert_eq!(other, Versioned::Conflict { current: 2 }),
        }
    }
    assert_eq!(applied, 1);
    assert_eq!(stock(&fresh).await, (9, 2));
}
