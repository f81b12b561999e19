//! One keeper for all calls of a runtime: what befalls one harms no other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Swap, Wrap};
use idempotent_runtime::{MemoryStore, Policy, Renew, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::guarded::{Guarded, forever, millis, secs};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(3))
}

async fn lasting(lasts: Duration) -> Result<(), ()> {
    sleep(lasts).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_renewed_for_ever_harms_nobody() {
    let uncapped = Guarded::in_memory(policy().renew(Renew::Cap(Duration::MAX)));
    let renewed = Guarded::in_memory(policy());
    let not_renewed = Guarded::in_memory(policy().renew(Renew::No));
    let (uncapped, renewed, not_renewed) = tokio::join!(
        uncapped.run(1, lasting(secs(60))),
        renewed.run(1, lasting(secs(60))),
        timeout(secs(4), not_renewed.run(1, forever())),
    );
    uncapped.unwrap();
    renewed.unwrap();
    let refused = not_renewed.expect("it is stopped").unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_beside_a_long_one_is_renewed_in_time() {
    let long = Guarded::in_memory(policy().lease(secs(30)));
    let short = Guarded::in_memory(policy());
    let later = async {
        // The keeper has gone to sleep until the long one is due.
        sleep(secs(1)).await;
        short.run(1, lasting(secs(60))).await
    };
    let (long, short) = tokio::join!(long.run(1, lasting(secs(60))), later);
    long.unwrap();
    short.unwrap();
}

fn paused_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

#[test]
fn a_call_that_outlives_its_runtime_is_kept_by_the_keeper_of_the_next() {
    let (first, second) = (paused_runtime(), paused_runtime());
    let guarded = Guarded::in_memory(policy());
    let moved = Notify::new();
    let body = async {
        moved.notified().await;
        lasting(secs(20)).await
    };
    let mut call = pin!(guarded.run(1, body));
    let waits = first.block_on(async { timeout(secs(1), call.as_mut()).await });
    waits.unwrap_err();
    drop(first);
    moved.notify_one();
    second.block_on(call).unwrap();
}

#[test]
fn a_call_that_outlives_its_runtime_is_stopped_by_the_keeper_of_the_next() {
    let (first, second) = (paused_runtime(), paused_runtime());
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    let mut call = pin!(guarded.run(1, forever()));
    let waits = first.block_on(async { timeout(secs(1), call.as_mut()).await });
    waits.unwrap_err();
    drop(first);
    let stopped = second.block_on(async { timeout(secs(4), call).await });
    let refused = stopped.expect("it is woken").unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
}

/// The waker of an executor that has a bug.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a bug in the executor");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_keeper_died_is_kept_by_the_next_one() {
    let deadly = Guarded::in_memory(policy().lease(secs(1)).renew(Renew::No));
    let mut call = pin!(deadly.run(1, forever()));
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        call.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );

    let guarded = Guarded::in_memory(policy());
    let body = async {
        for _ in 0..40 {
            sleep(millis(500)).await;
        }
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    // One that never met the dead keeper.
    guarded.run(2, lasting(secs(20))).await.unwrap();
}

/// A memory store whose removals hang, then panic.
#[derive(Debug)]
struct PanicsInRemove(MemoryStore, AtomicUsize);

#[async_trait]
impl Wrap for PanicsInRemove {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
        if self.1.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        panic!("a bug in the store");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_in_what_a_caller_left_ends_only_that() {
    let fine = Guarded::in_memory(policy());
    // Polled by nobody but its own timer, so that it meets no other keeper.
    let fine = tokio::spawn(async move { fine.run(1, lasting(secs(60))).await });

    let store = PanicsInRemove(MemoryStore::new(), AtomicUsize::new(0));
    let panicking = Guarded::on(store, policy());
    let body = async {
        sleep(millis(10)).await;
        Err::<(), ()>(())
    };
    // Dropped while settling.
    let call = panicking.run(1, body);
    timeout(millis(100), call).await.unwrap_err();
    panicking.settled().await;
    sleep(secs(30)).await;
    let taken = panicking.taken_for(1).await;
    assert_eq!(taken, None, "what nobody settles is renewed no more");
    fine.await.unwrap().unwrap();
}

/// Says that it was woken.
struct Tells(AtomicBool, mpsc::Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        let _ = self.1.send(());
    }
}

#[test]
fn a_lease_that_is_lost_while_another_task_polls_the_body_wakes_that_one() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let guarded = Guarded::in_memory(policy().lease(secs(1)).renew(Renew::No));
    let (tell, told) = mpsc::channel();
    let [first, second] = [(); 2].map(|()| Arc::new(Tells(AtomicBool::new(false), tell.clone())));
    let mut polls = 0;
    let body = poll_fn(|_| {
        polls += 1;
        if polls == 2 {
            // The keeper wakes the task that it knows of: the first.
            told.recv_timeout(secs(30)).unwrap();
        }
        Poll::<Result<(), ()>>::Pending
    });
    let mut call = pin!(guarded.run(1, body));
    for task in [&first, &second] {
        let waker = Waker::from(Arc::clone(task));
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    assert!(first.0.load(Ordering::SeqCst));
    assert!(second.0.load(Ordering::SeqCst), "it would wait for ever");
}
