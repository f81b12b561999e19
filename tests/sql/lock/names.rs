//! Which names and leases are allowed, and which names are equal.

use std::time::Duration;

use idempotent_sql::sql::sqlx;

use crate::lock::databases::{Subject, fresh};

const LONG: Duration = Duration::from_mins(10);

on_every_database! {
    names_are_compared_byte_by_byte
    names_are_at_most_512_bytes_without_nul
    leases_are_a_millisecond_at_least_and_100_years_at_most
}

async fn names_are_compared_byte_by_byte<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let names = [
        "", " ", "A", "a", "a ", " a", "ä", "a\u{308}", "ß", "ss", "%", "_", "'", "\\", "锁", "🔒",
    ];
    for name in names {
        let held = lock.take(name, LONG).await.unwrap().unwrap();
        assert_eq!(held.fence(), 1, "{name:?} must be free");
    }
    for name in names {
        assert!(
            lock.take(name, LONG).await.unwrap().is_none(),
            "{name:?} must be taken"
        );
    }
}

async fn names_are_at_most_512_bytes_without_nul<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let _held = lock.take(&"ä".repeat(256), LONG).await.unwrap().unwrap();
    for name in ["a".repeat(513), "ä".repeat(257), "a\0b".to_owned()] {
        let error = lock.take(&name, LONG).await.unwrap_err();
        assert!(
            matches!(error, sqlx::Error::InvalidArgument(_)),
            "{error:?}"
        );
    }
}

async fn leases_are_a_millisecond_at_least_and_100_years_at_most<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let century = Duration::from_hours(100 * 365 * 24);
    let mut held = lock.take("trade:42", century).await.unwrap().unwrap();
    assert!(held.renew(century).await.unwrap());
    for lease in [
        Duration::ZERO,
        Duration::from_micros(999),
        century + LONG,
        Duration::MAX,
    ] {
        let error = lock.take("trade:43", lease).await.unwrap_err();
        assert!(
            matches!(error, sqlx::Error::InvalidArgument(_)),
            "{error:?}"
        );
        let error = held.renew(lease).await.unwrap_err();
        assert!(
            matches!(error, sqlx::Error::InvalidArgument(_)),
            "{error:?}"
        );
    }
}
