//! Many concurrent calls from several pools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Wrap};
use idempotent_runtime::{Store, StoreError, StoreErrorKind};
use idempotent_sql::SqlStore;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, VALUE, connected, leave_expired};

on_every_database! {
    one_of_200_claims_wins
    a_store_that_reads_before_it_writes_lets_several_win
    one_of_50_takes_over_what_has_expired
}

async fn one_of_200_claims_wins<DB: Fresh>() {
    let stores = stores::<DB>().await;
    assert_eq!(winners(&stores, 200).await, 1);
}

async fn a_store_that_reads_before_it_writes_lets_several_win<DB: Fresh>() {
    let deadline = Instant::now() + MAX_WAIT;
    for races in 1.. {
        let stores = stores::<DB>().await;
        let mutants = stores.map(|store| Arc::new(LooksThenPuts(store)));
        if winners(&mutants, 200).await > 1 {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "one of {races} races must have several winners"
        );
    }
}

async fn one_of_50_takes_over_what_has_expired<DB: Fresh>() {
    let stores = stores::<DB>().await;
    leave_expired(&stores[0], "key").await;
    assert_eq!(winners(&stores, 50).await, 1);
}

/// Four stores on the same database, like in four processes.
async fn stores<DB: Fresh>() -> [Arc<SqlStore<DB>>; 4] {
    let url = DB::url();
    let store = async || Arc::new(connected::<DB>(&url).await);
    [store().await, store().await, store().await, store().await]
}

/// The number of racers that get the key.
async fn winners<S: Store>(stores: &[Arc<S>], racers: usize) -> usize {
    let start = Arc::new(Barrier::new(racers));
    let mut racing = JoinSet::new();
    for racer in 0..racers {
        let store = Arc::clone(&stores[racer % stores.len()]);
        let start = Arc::clone(&start);
        racing.spawn(async move {
            let value = Bytes::from(format!("racer {racer}"));
            start.wait().await;
            claimed(&*store, "key", &value, TTL).await
        });
    }
    let claimed = racing.join_all().await;
    claimed.into_iter().filter(|claimed| *claimed).count()
}

/// Claims like a call: it retries while the answer is not conclusive.
pub(crate) async fn claimed(store: &impl Store, key: &str, value: &Bytes, ttl: Duration) -> bool {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match store.claim(key, value, ttl).await {
            Ok(claim) => return claim == Claim::Claimed,
            // A repeated claim of the same value has the same answer.
            Err(error) => {
                let kinds = [StoreErrorKind::NotApplied, StoreErrorKind::Unknown];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                assert!(Instant::now() < deadline, "{error:?}");
            }
        }
    }
}

/// The usual wrong implementation: it reads before it writes.
#[derive(Debug)]
struct LooksThenPuts<DB: Fresh>(Arc<SqlStore<DB>>);

#[async_trait]
impl<DB: Fresh> Wrap for LooksThenPuts<DB> {
    type Inner = SqlStore<DB>;

    fn inner(&self) -> &SqlStore<DB> {
        &self.0
    }

    async fn claim(&self, key: &str, _: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        if let Some(entry) = self.0.get(key).await? {
            return Ok(Claim::Taken(entry.value));
        }
        let put = DB::run(self.0.pool(), DB::PUT).await;
        Ok(put.map_or(Claim::Taken(VALUE), |()| Claim::Claimed))
    }
}
