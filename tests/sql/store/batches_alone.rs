//! A change of a batch that waits for a row delays and fails no other change.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Store, StoreErrorKind};
use idempotent_sql::SqlStore;
use idempotent_sql::sql::sqlx::{MySql, Postgres};
use tokio::time::timeout;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, leave_expired, narrow};

static VALUE: bytes::Bytes = crate::store::databases::VALUE;

on_every_server! {
    a_row_that_the_application_has_locked_delays_only_its_own_change
    a_statement_timeout_ends_only_the_change_that_waits
}

/// A database that locks rows.
trait Server: Fresh {
    /// Statements that set a timeout for the statements of a session, the shortest first.
    const TIMEOUTS: [&'static [&'static str]; 4];
}

impl Server for Postgres {
    const TIMEOUTS: [&'static [&'static str]; 4] = [
        &["SET statement_timeout = '300ms'"],
        &["SET statement_timeout = '1s'"],
        &["SET statement_timeout = '4s'"],
        &["SET statement_timeout = '16s'"],
    ];
}

impl Server for MySql {
    const TIMEOUTS: [&'static [&'static str]; 4] = [
        &["SET SESSION max_statement_time = 0.3"],
        &["SET SESSION max_statement_time = 1"],
        &["SET SESSION max_statement_time = 4"],
        &["SET SESSION max_statement_time = 16"],
    ];
}

/// A store on a pool whose sessions wait long for locks, unless `settings` say otherwise.
async fn with_settings<DB: Fresh>(url: &str, settings: &'static [&'static str]) -> SqlStore<DB> {
    SqlStore::new(DB::pool(url, settings).await)
}

async fn a_row_that_the_application_has_locked_delays_only_its_own_change<DB: Server>() {
    let url = DB::url();
    let other = narrow::<DB>(&url).await;
    let store = with_settings::<DB>(&url, &[]).await;
    let keys: Vec<_> = (0..50).map(|key| format!("free {key}")).collect();
    for is_claim in [true, false] {
        if is_claim {
            leave_expired(&store, "locked").await;
        } else {
            store.remove("locked", &VALUE).await.unwrap();
            store.claim("locked", &VALUE, TTL).await.unwrap();
        }
        let mut locking = other.pool().begin().await.unwrap();
        DB::lock(&mut locking).await;
        let is_unlocked = AtomicBool::new(false);
        let change = async |key: &str| {
            let done = if is_claim {
                store.claim(key, &VALUE, TTL).await.unwrap() == Claim::Claimed
            } else {
                store.remove(key, &VALUE).await.unwrap() == Swap::Done
            };
            assert!(done, "{key}");
            is_unlocked.load(Ordering::SeqCst)
        };
        // The first changes are sent by their callers.
        let (before, after) = keys.split_at(25);
        let free = async {
            let (before, after) = (before.iter(), after.iter());
            let before = join_all(before.map(|key| change(key)));
            let after = join_all(after.map(|key| change(key)));
            let (before, after) = timeout(MAX_WAIT, join(before, after)).await.unwrap();
            assert!(
                !before
                    .iter()
                    .chain(&after)
                    .any(|after_unlock| *after_unlock)
            );
            is_unlocked.store(true, Ordering::SeqCst);
            locking.rollback().await.unwrap();
        };
        let ((), after_unlock) = join(free, async {
            tokio::task::yield_now().await;
            change("locked").await
        })
        .await;
        assert!(after_unlock);
    }
}

async fn a_statement_timeout_ends_only_the_change_that_waits<DB: Server>() {
    // On a busy machine a statement that does not wait may need more than the shortest time.
    for timeout in DB::TIMEOUTS {
        if only_the_change_that_waits_ends::<DB>(timeout).await {
            return;
        }
    }
    panic!("none of {} timeouts was long enough", DB::TIMEOUTS.len());
}

/// Whether all changes succeed that do not wait for a lock.
async fn only_the_change_that_waits_ends<DB: Server>(timeout: &'static [&'static str]) -> bool {
    let url = DB::url();
    let other = narrow::<DB>(&url).await;
    let store = with_settings::<DB>(&url, timeout).await;
    leave_expired(&store, "locked").await;
    let mut locking = other.pool().begin().await.unwrap();
    DB::lock(&mut locking).await;
    let names: Vec<_> = (0..40).map(|key| format!("free {key}")).collect();
    let claims = names[..20].iter().map(String::as_str);
    let claims = claims
        .chain(["locked"])
        .chain(names[20..].iter().map(String::as_str));
    let claims = claims.map(async |key| (key, store.claim(key, &VALUE, TTL).await));
    let mut all_succeed = true;
    for (key, claim) in join_all(claims).await {
        match claim {
            Ok(claim) => assert!(key != "locked" && claim == Claim::Claimed, "{key}"),
            Err(error) => {
                // If this process stands still within a batch, the server ends its session.
                let is_unanswered = error.kind() == StoreErrorKind::Unknown;
                assert!(is_unanswered || error.kind() == StoreErrorKind::NotApplied);
                all_succeed &= key == "locked" && !is_unanswered;
            }
        }
    }
    locking.rollback().await.unwrap();
    all_succeed
}
