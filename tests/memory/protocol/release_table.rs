//! The table of `release`, cell by cell, on two stores: when the key is free again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotent_runtime::{MemoryStore, Policy, Release, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::protocol::guarded::{Guarded, forever, millis, secs, yielding};
use support::patient::patient;

const TTL: Duration = secs(90);
const LEASE: Duration = secs(20);
const GRACE_OF_LEASE: Duration = secs(2);
const GRACE_OF_TTL: Duration = secs(5);

/// How late the answer of a real server may be.
const SLACK: Duration = secs(2);

#[derive(Debug, Clone, Copy)]
enum End {
    Ok,
    Err,
    Dropped,
    Panic,
}

/// For how long the key of a call is still taken after this end. An answer that comes too late says nothing, and then another key is
/// asked for.
async fn taken_after(guarded: &Guarded, end: End) -> Option<Duration> {
    for attempt in 0..20 {
        let began = Instant::now();
        let taken = taken_by(guarded, end as u64 + 10 * attempt, end).await;
        if began.elapsed() < SLACK {
            return taken;
        }
    }
    panic!("none of 20 calls with the end {end:?} took less than {SLACK:?}");
}

async fn taken_by(guarded: &Guarded, id: u64, end: End) -> Option<Duration> {
    match end {
        End::Ok => guarded.run(id, yielding(Ok(()))).await.unwrap(),
        End::Err => {
            let outcome = guarded.run::<()>(id, yielding(Err(()))).await;
            outcome.unwrap_err();
        }
        End::Dropped => {
            let begun = Notify::new();
            let body = async {
                begun.notify_one();
                forever().await
            };
            tokio::select! {
                _ = guarded.run(id, body) => panic!("the body never ends"),
                () = begun.notified() => {}
            }
        }
        End::Panic => {
            let body = async { panic!("in the body") };
            let call = AssertUnwindSafe(guarded.run::<()>(id, body));
            call.catch_unwind().await.unwrap_err();
        }
    }
    guarded.settled().await;
    guarded.taken_for(id).await
}

fn about(found: Option<Duration>, expected: Duration) -> bool {
    found.is_some_and(|found| found <= expected && found + SLACK >= expected)
}

async fn holds_on(store: impl Store + Clone) {
    let with = |release| match release {
        Release::OnError => Policy::new(TTL).lease(LEASE),
        _ => Policy::new(TTL).release(release),
    };
    let guarded = |release, endpoint| Guarded {
        endpoint,
        idempotency: patient(store.clone()),
        ..Guarded::on(store.clone(), with(release))
    };
    let ends = [End::Ok, End::Err, End::Dropped, End::Panic];

    let always = guarded(Release::Always, "table.always");
    for end in ends {
        let taken = taken_after(&always, end).await;
        match end {
            End::Ok | End::Err => assert_eq!(taken, None, "release = true, {end:?}"),
            _ => assert!(
                about(taken, TTL + GRACE_OF_TTL),
                "release = true, {end:?}: {taken:?}"
            ),
        }
    }

    let on_error = guarded(Release::OnError, "table.on_error");
    for end in ends {
        let taken = taken_after(&on_error, end).await;
        match end {
            End::Ok => assert!(about(taken, TTL), "on_error, {end:?}: {taken:?}"),
            End::Err => assert_eq!(taken, None, "on_error, {end:?}"),
            _ => assert!(
                about(taken, LEASE + GRACE_OF_LEASE),
                "on_error, {end:?}: {taken:?}"
            ),
        }
    }

    let never = guarded(Release::Never, "table.never");
    for end in ends {
        let taken = taken_after(&never, end).await;
        assert!(
            about(taken, TTL + GRACE_OF_TTL),
            "release = false, {end:?}: {taken:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_holds_in_memory() {
    holds_on(MemoryStore::new()).await;
}

#[tokio::test]
async fn the_table_holds_on_redis() {
    use idempotence_test_servers::RedisServer;
    use idempotent_redis::RedisStore;

    let server = RedisServer::start().unwrap();
    holds_on(RedisStore::connect(&server.url()).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_body_that_is_never_released_costs_one_command_and_leaves_the_claim() {
    let guarded = Guarded::in_memory(Policy::new(secs(10)).release(Release::Never));
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let refused = guarded
        .run(1, async { Ok(()) })
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused.code(), "taken");
    assert!(refused.is_duplicate());
    tokio::time::advance(secs(10) + millis(1001)).await;
    guarded.run(1, async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewed_claim_that_is_never_released_still_ends_ttl_after_the_claim() {
    let guarded = Guarded::in_memory(Policy::new(secs(30)).release(Release::Never));
    let body = async {
        tokio::time::sleep(secs(25)).await;
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    assert_eq!(guarded.taken_for(1).await, Some(secs(5 + 3)));
}

#[tokio::test(start_paused = true)]
async fn a_body_longer_than_its_ttl_frees_a_key_that_is_never_released() {
    let guarded = Guarded::in_memory(Policy::new(secs(30)).release(Release::Never));
    let body = async {
        tokio::time::sleep(secs(100)).await;
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    assert_eq!(guarded.taken_for(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gets_in_progress_or_already_done() {
    let id = 4_111_111_111_111_111;
    let guarded = Guarded::in_memory(Policy::new(secs(60)).lease(secs(10)));
    let body = async {
        let refused = guarded
            .run(id, async { Ok(()) })
            .await
            .unwrap_err()
            .refusal();
        assert_eq!(refused.code(), "in_progress");
        assert!(refused.duplicate().unwrap().free_in().unwrap() <= secs(11));
        Ok(())
    };
    guarded.run(id, body).await.unwrap();
    let refused = guarded
        .run(id, async { Ok(()) })
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused.code(), "already_done");
    assert!(refused.retry_after().unwrap() <= secs(60));
    assert!(!refused.to_string().contains(&id.to_string()), "{refused}");
}
