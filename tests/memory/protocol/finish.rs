//! `on_cancel = "finish"`: a body runs to its end even if its caller drops the call.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::private::{Refusal, returns};
use idempotent_runtime::{Error, Idempotency, Policy};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::protocol::guarded::{Guarded, secs};

fn finishing() -> Guarded {
    Guarded::in_memory(Policy::new(secs(60)).lease(secs(10)))
}

async fn run<F>(guarded: &Guarded, body: F) -> Result<F::Output, Error>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let held = guarded.call(1).claim().await.map_err(Refusal::into_error)?;
    let body = async move { Ok::<_, Error>(body.await) };
    let returns = returns::<Result<F::Output, Error>>();
    returns.finish(held, Box::pin(body)).await?
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_gets_the_value() {
    let guarded = finishing();
    assert_eq!(run(&guarded, async { 7 }).await.unwrap(), 7);
    assert_eq!(guarded.taken_for(1).await, Some(secs(60)));
}

#[tokio::test(start_paused = true)]
async fn a_body_runs_to_its_end_after_its_caller_dropped_the_call() {
    let guarded = finishing();
    let body = async { sleep(secs(100)).await };
    timeout(secs(1), run(&guarded, body)).await.unwrap_err();
    let undrained = guarded.idempotency.drain(secs(50)).await;
    let undrained = undrained.unwrap_err();
    assert_eq!(undrained.remaining(), 1);
    let text = undrained.to_string();
    assert!(
        text.contains("1 of the background operations still run after 50s"),
        "{text}"
    );
    assert_eq!(guarded.idempotency.drain(secs(50)).await, Ok(()));
    assert_eq!(guarded.state_of(1).await, b'D');
}

#[tokio::test(start_paused = true)]
async fn a_finishing_body_stays_in_the_scope_of_its_caller() {
    let guarded = finishing();
    let tenant = Idempotency::builder(idempotent_runtime::MemoryStore::new())
        .prefix("tenant")
        .build()
        .unwrap();
    let (seen, was_seen) = (Arc::new(Notify::new()), Duration::from_secs(90));
    let body = {
        let seen = Arc::clone(&seen);
        async move {
            sleep(secs(2)).await;
            if format!("{:?}", Idempotency::current()).contains("tenant") {
                seen.notify_one();
            }
        }
    };
    let call = tenant.scope(run(&guarded, body));
    timeout(secs(1), call).await.unwrap_err();
    timeout(was_seen, seen.notified()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panicked_is_not_polled_again_and_holds_the_key() {
    let guarded = finishing();
    let call = {
        let guarded = guarded.clone();
        tokio::spawn(async move {
            let body = async {
                sleep(secs(1)).await;
                panic!("in the body");
            };
            run(&guarded, body).await
        })
    };
    assert!(call.await.unwrap_err().is_panic());
    guarded.settled().await;
    assert_eq!(guarded.taken_for(1).await, Some(secs(10)));
}
