//! Drops of unguarded calls, drops by a panic, and the cleanup limit. For every other drop see `drops`.

use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, OnCancel, OnStoreError, Policy};
use tokio::sync::Notify;

use crate::protocol::guarded::{Guarded, forever, secs};

const TTL: Duration = secs(90);
const LEASE: Duration = secs(20);

#[tokio::test(start_paused = true)]
async fn a_dropped_unguarded_call_settles_its_record_by_on_cancel() {
    for (on_cancel, stays) in [(OnCancel::Keep, true), (OnCancel::Release, false)] {
        let store = FaultyStore::new(MemoryStore::new());
        let policy = Policy::new(TTL)
            .on_cancel(on_cancel)
            .on_store_error(OnStoreError::Run);
        let guarded = Guarded::on(store.clone(), policy);
        store.always(Op::Claim, Fault::LoseReply);
        let running = Notify::new();
        let body = async {
            running.notify_one();
            forever().await
        };
        tokio::select! {
            _ = guarded.run(1, body) => panic!("the body never ends"),
            () = running.notified() => store.heal(),
        }
        guarded.settled().await;
        assert_eq!(guarded.entry(1).await.is_some(), stays, "{on_cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_claims_are_withdrawn_at_once_as_the_handle_allows() {
    for (limit, withdrawn) in [(0, 0), (2, 2), (3, 3)] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), Policy::new(TTL).lease(LEASE));
        let handle = Idempotency::builder(store.clone()).cleanup_limit(limit);
        let guarded = Guarded {
            idempotency: handle.build().unwrap(),
            ..guarded
        };
        store.always(Op::Claim, Fault::ApplyThenHang);
        store.always(Op::Remove, Fault::Hang);
        for id in 0..3 {
            let mut call = std::pin::pin!(guarded.run(id, forever()));
            assert!(call.as_mut().now_or_never().is_none());
        }
        store.heal();
        guarded.settled().await;
        for id in 0..3 {
            assert_eq!(guarded.entry(id).await.is_none(), id < withdrawn, "{limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_keeps_the_key_although_on_cancel_releases_it() {
    let policy = Policy::new(TTL).lease(LEASE).on_cancel(OnCancel::Release);
    let guarded = Guarded::in_memory(policy);
    let call = {
        let guarded = guarded.clone();
        tokio::spawn(async move { guarded.run::<()>(1, async { panic!("in the body") }).await })
    };
    assert!(
        call.await.unwrap_err().is_panic(),
        "the panic passes through"
    );
    guarded.settled().await;
    assert_eq!(guarded.taken_for(1).await, Some(LEASE + secs(2)));
}
