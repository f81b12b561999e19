//! The settings of a session do not matter.

use std::time::Duration;

use idempotent_sql::sql::Lock;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::lock::databases::{Subject, fresh, taken};

const LONG: Duration = Duration::from_mins(10);

on_every_database! {
    the_time_zone_of_a_session_does_not_matter
    the_isolation_level_of_a_session_does_not_matter
}

async fn the_time_zone_of_a_session_does_not_matter<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let here = fresh.lock();
    let there = Lock::new(DB::pool(&fresh.url, DB::STRANGE).await);
    for (first, second) in [(&here, &there), (&there, &here)] {
        let held = first.take("trade:42", LONG).await.unwrap().unwrap();
        assert!(second.take("trade:42", LONG).await.unwrap().is_none());
        held.release().await.unwrap();

        let short = taken(first, Duration::from_millis(50)).await;
        let taking = async {
            loop {
                if let Some(held) = second.take("trade:42", LONG).await.unwrap() {
                    break held;
                }
            }
        };
        let held = timeout(Duration::from_mins(1), taking).await.unwrap();
        assert!(Instant::now() >= short.deadline());
        held.release().await.unwrap();
    }
}

/// If the statements of several sessions cannot be serialized, the database refuses one of them.
async fn the_isolation_level_of_a_session_does_not_matter<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = Lock::new(DB::pool(&fresh.url, DB::STRANGE).await);
    let mut takers = JoinSet::new();
    for _ in 0..8 {
        let lock = lock.clone();
        takers.spawn(async move {
            let mut held = 0;
            while held < 20 {
                if let Some(mut lock) = lock.take("trade:42", LONG).await.unwrap() {
                    assert!(lock.renew(LONG).await.unwrap());
                    assert!(lock.release().await.unwrap());
                    held += 1;
                }
            }
        });
    }
    takers.join_all().await;
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert_eq!(held.fence(), 8 * 20 + 1);
}
