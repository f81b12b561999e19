#![allow(clippy::unwrap_used)]

//! The negative control of the storms of claims in `tests/sql_store`, which lose many races only by chance.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Store as _};
use sqlx::raw_sql;
use tokio::runtime::Builder;

use crate::mutation::{self, Mutation};
use crate::store::SqliteStore;

/// The first twenty inserts store nothing, as if another call had the key and released it before the claim reads the record.
const LOSES_RACES: &str = "
CREATE TABLE race (lost);
CREATE TRIGGER loses BEFORE INSERT ON idempotence WHEN (SELECT count(*) FROM race) < 20
BEGIN
    INSERT INTO race VALUES (NEW.key);
    SELECT RAISE(IGNORE);
END";

#[test]
fn a_claim_that_loses_twenty_races_has_an_answer() {
    let is_kept = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
            raw_sql(LOSES_RACES).execute(store.pool()).await.unwrap();
            let value = Bytes::from_static(b"value");
            let claim = store.claim("key", &value, Duration::from_mins(1)).await;
            let lost = sqlx::query_scalar("SELECT count(*) FROM race");
            let lost: i64 = lost.fetch_one(store.pool()).await.unwrap();
            assert!(lost >= 3, "only {lost} races were lost");
            claim.is_ok_and(|claim| claim == Claim::Claimed)
        })
    };
    mutation::assert_kept(is_kept, &[Mutation::GivesUpEarly]);
}
