//! The fence of a holder is larger than the fences of all earlier holders.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::lock::databases::{Subject, fresh, taken};

const LONG: Duration = Duration::from_mins(10);
const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

on_every_database! {
    the_fence_grows_over_a_thousand_holders
    the_fence_grows_when_leases_expire
    a_late_holder_loses_by_its_fence
    each_name_has_its_own_fences
}

/// Four tasks take turns. Each records its fence while it holds the lock, so the fences are in the order of the holders.
async fn the_fence_grows_over_a_thousand_holders<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    const HOLDERS: usize = 1000;
    let fences = Arc::new(Mutex::new(Vec::new()));
    let mut takers = JoinSet::new();
    for _ in 0..4 {
        let (lock, fences) = (fresh.lock(), Arc::clone(&fences));
        takers.spawn(async move {
            while fences.lock().unwrap().len() < HOLDERS {
                if let Some(held) = lock.take("trade:42", LONG).await.unwrap() {
                    fences.lock().unwrap().push(held.fence());
                    assert!(held.release().await.unwrap());
                }
            }
        });
    }
    takers.join_all().await;
    let fences = fences.lock().unwrap();
    let expected: Vec<i64> = (1..).take(fences.len()).collect();
    assert_eq!(*fences, expected);
}

/// No holder releases the lock: each lease expires.
async fn the_fence_grows_when_leases_expire<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    const HOLDERS: usize = 30;
    let begun = Instant::now();
    let holders = Arc::new(AtomicUsize::new(0));
    let mut takers = JoinSet::new();
    for _ in 0..4 {
        let (lock, holders) = (fresh.lock(), Arc::clone(&holders));
        takers.spawn(async move {
            let (mut lease, mut fences) = (Duration::from_millis(20), Vec::new());
            while holders.load(Ordering::SeqCst) < HOLDERS {
                assert!(begun.elapsed() < MINUTE * 2, "the lock must be taken again");
                match lock.take("trade:42", lease).await {
                    Ok(Some(held)) => {
                        holders.fetch_add(1, Ordering::SeqCst);
                        fences.push(held.fence());
                    }
                    Ok(None) => {}
                    // On a slow machine the lease expires before the answer.
                    Err(_) => lease = (lease * 2).min(SECOND),
                }
            }
            fences
        });
    }
    let takers = takers.join_all().await;
    for fences in &takers {
        assert!(
            fences.is_sorted_by(|earlier, later| earlier < later),
            "{fences:?}"
        );
    }
    let mut fences = takers.concat();
    let holders = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), holders, "each holder has its own fence");
    assert!(holders >= HOLDERS);
}

async fn a_late_holder_loses_by_its_fence<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let late = taken(&lock, Duration::from_millis(50)).await;
    let holder = taken(&lock, LONG).await;

    let table = "CREATE TABLE trade (id int NOT NULL, fence bigint NOT NULL)";
    DB::run_raw(&fresh.pool, table).await.unwrap();
    DB::run_raw(&fresh.pool, "INSERT INTO trade VALUES (42, 0)")
        .await
        .unwrap();
    let written = async |fence| DB::write_with_fence(&fresh.pool, fence).await;
    assert_eq!(written(holder.fence()).await, 1);
    assert_eq!(written(late.fence()).await, 0);
}

async fn each_name_has_its_own_fences<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    for fence in 1..=3 {
        let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
        assert_eq!(held.fence(), fence);
        held.release().await.unwrap();
    }
    let held = lock.take("trade:43", LONG).await.unwrap().unwrap();
    assert_eq!(held.fence(), 1);
}
