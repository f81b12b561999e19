//! One scheduler renews all leases of a runtime. A failure of one lease does not affect the others.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Swap, Wrap};
use idempotent_runtime::{Error, Idempotency, MemoryStore, Policy, Renew, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, secs};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(3))
}

async fn lasting(lasts: Duration) -> Result<(), ()> {
    sleep(lasts).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_uncapped_renewal_does_not_affect_other_leases() {
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
    let refused = not_renewed
        .expect("the body is stopped")
        .unwrap_err()
        .refusal();
    assert_eq!(refused.code(), "lease_lost");
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_renewed_in_time_although_a_long_lease_exists() {
    let long = Guarded::in_memory(policy().lease(secs(30)));
    let short = Guarded::in_memory(policy());
    let later = async {
        // The scheduler sleeps until the long lease is due.
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

/// Its lease could not be renewed, so the body would lose its key.
#[test]
fn a_call_on_a_runtime_without_timers_is_an_error() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let idempotency = Idempotency::new(MemoryStore::new());
    for name in ["orders.pay".to_owned().into(), Cow::Borrowed("orders.pay")] {
        for _ in 0..2 {
            let call = idempotency.call(name.clone()).key(&1).ttl(secs(60));
            let body = async {
                if true {
                    unreachable!("the body runs")
                }
                Ok::<_, Error>(())
            };
            let refused = runtime.block_on(call.run(body));
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), "invalid_policy");
            assert!(refused.to_string().contains("`enable_time`"), "{refused}");
        }
    }
    let timers = paused_runtime();
    let call = idempotency.call("orders.pay").key(&1).ttl(secs(60));
    timers
        .block_on(call.run(async { Ok::<_, Error>(()) }))
        .unwrap();
}

#[test]
fn a_call_that_outlives_its_runtime_is_renewed_by_the_scheduler_of_the_next() {
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
fn a_call_that_outlives_its_runtime_is_stopped_by_the_scheduler_of_the_next() {
    let (first, second) = (paused_runtime(), paused_runtime());
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    let mut call = pin!(guarded.run(1, forever()));
    let waits = first.block_on(async { timeout(secs(1), call.as_mut()).await });
    waits.unwrap_err();
    drop(first);
    let stopped = second.block_on(async { timeout(secs(4), call).await });
    let refused = stopped.expect("the call is woken").unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
}

/// A waker of a faulty executor.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a bug in the executor");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_scheduler_renews_leases_after_the_old_one_panicked() {
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
    // This lease was never in the dead scheduler.
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
async fn a_store_that_panics_in_background_work_does_not_affect_other_leases() {
    let fine = Guarded::in_memory(policy());
    // A separate task polls the call, so that no other scheduler gets its lease.
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
    assert_eq!(taken, None, "a claim that no task settles is not renewed");
    fine.await.unwrap().unwrap();
}

/// A waker that notifies the test.
struct Notifies(AtomicBool, mpsc::Sender<()>);

impl Wake for Notifies {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        let _ = self.1.send(());
    }
}

#[test]
fn a_lost_lease_wakes_the_task_that_polls_the_body_now() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let guarded = Guarded::in_memory(policy().lease(secs(1)).renew(Renew::No));
    let (sender, woken) = mpsc::channel();
    let [first, second] =
        [(); 2].map(|()| Arc::new(Notifies(AtomicBool::new(false), sender.clone())));
    let mut polls = 0;
    let body = poll_fn(|_| {
        polls += 1;
        if polls == 2 {
            // The scheduler wakes the task of its stored waker: the first.
            woken.recv_timeout(secs(30)).unwrap();
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
    assert!(
        second.0.load(Ordering::SeqCst),
        "the lost lease must wake the second task"
    );
}
