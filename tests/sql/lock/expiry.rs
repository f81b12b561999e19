//! Leases that expire, and leases that are renewed.

use std::time::Duration;

use idempotent_sql::sql::{Lock, LockGuard};
use tokio::time::{Instant, sleep_until, timeout};

use crate::lock::databases::{Subject, fresh, taken};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_mins(10);

on_every_database! {
    a_held_lock_is_refused_until_it_is_released
    the_old_holder_of_an_expired_lock_changes_nothing
    an_expired_lock_cannot_be_renewed
    a_renewed_lock_outlives_its_first_lease
    a_renewal_never_shortens_a_lease
    the_lease_is_counted_from_before_the_send
    futures_of_locks_can_be_spawned
}

async fn a_held_lock_is_refused_until_it_is_released<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert!(lock.take("trade:42", LONG).await.unwrap().is_none());
    let _other = lock.take("trade:43", LONG).await.unwrap().unwrap();

    assert!(held.release().await.unwrap());
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    drop(held);
    assert!(
        lock.take("trade:42", LONG).await.unwrap().is_none(),
        "a dropped guard must not release the lock"
    );
}

async fn the_old_holder_of_an_expired_lock_changes_nothing<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let mut old = taken(&lock, SHORT).await;
    let deadline = old.deadline();
    let mut new = taken(&lock, LONG).await;
    assert!(
        Instant::now() >= deadline,
        "the lock must not be taken before the lease expires"
    );
    assert_eq!(old.remaining(), Duration::ZERO);
    assert!(new.fence() > old.fence());

    assert!(!old.renew(LONG).await.unwrap());
    assert_eq!(old.remaining(), Duration::ZERO);
    assert!(!old.release().await.unwrap());
    assert!(lock.take("trade:42", LONG).await.unwrap().is_none());
    assert!(new.renew(LONG).await.unwrap());
    assert!(new.release().await.unwrap());
}

async fn an_expired_lock_cannot_be_renewed<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let mut held = taken(&lock, SHORT).await;
    // The database counts the lease from the arrival of the statement, so the lease may expire there a little later.
    sleep_until(Instant::now() + SHORT).await;
    assert!(!held.renew(LONG).await.unwrap());
    assert!(
        held.release().await.unwrap(),
        "a release must return true if no other holder had the lock"
    );
}

async fn a_renewed_lock_outlives_its_first_lease<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let mut held = renewed_in_time(&lock).await;
    sleep_until(held.1 + SHORT).await;
    assert!(lock.take("trade:42", LONG).await.unwrap().is_none());
    assert!(held.0.remaining() > LONG / 2);
    assert!(held.0.renew(LONG).await.unwrap());
}

async fn a_renewal_never_shortens_a_lease<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let mut held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    let deadline = held.deadline();
    assert!(held.renew(SHORT).await.unwrap());
    assert_eq!(held.deadline(), deadline);
    sleep_until(Instant::now() + SHORT).await;
    assert!(lock.take("trade:42", LONG).await.unwrap().is_none());
}

async fn the_lease_is_counted_from_before_the_send<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let before = Instant::now();
    let mut held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    let after = Instant::now();
    assert!(held.deadline() >= before + LONG && held.deadline() <= after + LONG);

    assert!(held.renew(2 * LONG).await.unwrap());
    assert!(held.deadline() >= after + 2 * LONG);
    assert!(held.deadline() <= Instant::now() + 2 * LONG);
}

async fn futures_of_locks_can_be_spawned<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let renewed = tokio::spawn(async move {
        let mut held = lock.take("trade:42", LONG).await?.unwrap();
        let renewed = held.renew(LONG).await?;
        Ok::<_, idempotent_sql::sql::sqlx::Error>(renewed && held.release().await?)
    });
    assert!(renewed.await.unwrap().unwrap());
}

/// A lock that was taken for a short time and renewed in time, and the time when it was renewed.
async fn renewed_in_time<DB: Subject>(lock: &Lock<DB>) -> (LockGuard<DB>, Instant) {
    // On a slow machine the lease may expire before it is renewed.
    let renewing = async {
        loop {
            let mut held = taken(lock, SHORT).await;
            if held.renew(LONG).await.unwrap() {
                break (held, Instant::now());
            }
        }
    };
    timeout(Duration::from_mins(2), renewing).await.unwrap()
}
