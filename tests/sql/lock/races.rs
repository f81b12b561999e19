//! Many concurrent takers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::lock::databases::{Subject, fresh};

const TAKERS: usize = 50;
const LONG: Duration = Duration::from_mins(10);

on_every_database! {
    one_of_fifty_takers_gets_a_new_lock
    one_of_fifty_takers_gets_a_free_lock
    a_lock_table_without_a_unique_key_has_several_holders
}

async fn one_of_fifty_takers_gets_a_new_lock<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    for round in 0..5 {
        let lock = fresh.lock();
        let name = format!("trade:{round}");
        let holders = at_once(async move || lock.take(&name, LONG).await.unwrap()).await;
        assert_eq!(holders.len(), 1, "in round {round}");
    }
}

async fn one_of_fifty_takers_gets_a_free_lock<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    for round in 1..=5 {
        let lock = fresh.lock();
        let mut holders = at_once(async move || lock.take("trade:42", LONG).await.unwrap()).await;
        assert_eq!(holders.len(), 1, "in round {round}");
        let held = holders.remove(0);
        assert_eq!(held.fence(), round);
        assert!(held.release().await.unwrap());
    }
}

/// The negative control: a table without a unique index on the names, which is a common mistake.
async fn a_lock_table_without_a_unique_key_has_several_holders<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let table = "CREATE TABLE trade_lock (type int NOT NULL, lock_id int NOT NULL)";
    DB::run_raw(&fresh.pool, table).await.unwrap();
    let pool = fresh.pool.clone();
    let holders = at_once(async move || {
        let insert = "INSERT INTO trade_lock (type, lock_id) VALUES (1, 42)";
        DB::run_raw(&pool, insert).await.ok()
    })
    .await;
    assert!(
        holders.len() > 1,
        "a lock without a unique index must have several holders"
    );
}

/// Starts fifty takers at once. Returns the locks that were taken.
async fn at_once<T, F>(take: impl FnOnce() -> F + Clone + Send + 'static) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = Option<T>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(TAKERS));
    let mut takers = JoinSet::new();
    for _ in 0..TAKERS {
        let barrier = Arc::clone(&barrier);
        let take = take.clone();
        takers.spawn(async move {
            barrier.wait().await;
            take().await
        });
    }
    takers.join_all().await.into_iter().flatten().collect()
}
