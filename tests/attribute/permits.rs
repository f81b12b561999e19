//! The option `permits`, as users write it.

use std::time::Duration;

use idempotence::{Error, Idempotency, MemoryStore, Release, idempotent};
use tokio::sync::Notify;

#[idempotent(
    key = "tenant",
    permits = 2,
    name = "exports",
    ttl = "1m",
    release = true
)]
async fn export(tenant: u64, end: &Notify) -> Result<(), Error> {
    end.notified().await;
    Ok(())
}

#[idempotent(key = "tenant", permits = limit, ttl = "1m", release = true)]
async fn within(tenant: u64, limit: u32, end: &Notify) -> Result<(), Error> {
    end.notified().await;
    Ok(())
}

#[tokio::test]
async fn so_many_calls_of_a_key_run_at_once() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let end = Notify::new();
    let others = async {
        let refused = export(1, &end).await.unwrap_err();
        let Error::InProgress(running) = &refused else {
            panic!("{refused}")
        };
        assert_eq!(running.holders(), 2);
        assert!(refused.to_string().contains("2 other calls have the key"));

        let call = idempotency.call("exports").key(&1_u64).permits(2);
        let call = call.ttl(Duration::from_mins(1)).release(Release::Always);
        let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
        assert_eq!(
            refused.code(),
            "in_progress",
            "the builder has the same key"
        );

        end.notify_waiters();
    };
    let calls = async { tokio::join!(export(1, &end), export(1, &end), others) };
    let (one, other, ()) = idempotency.scope(calls).await;
    one.unwrap();
    other.unwrap();
}

#[tokio::test]
async fn the_number_may_be_an_expression_over_the_arguments() {
    let end = Notify::new();
    let others = async {
        for limit in [2, 1] {
            let refused = within(1, limit, &end).await.unwrap_err();
            let holders = refused.duplicate().unwrap().holders();
            assert_eq!(holders, limit as usize);
            assert!(!refused.is_duplicate() && !refused.is_silent(), "{limit}");
        }
        for number in [0, 101, u32::MAX] {
            let refused = within(2, number, &end).await.unwrap_err();
            assert_eq!(refused.code(), "invalid_policy", "{number}");
        }
        end.notify_waiters();
    };
    let calls = async { tokio::join!(within(1, 2, &end), within(1, 2, &end), others) };
    let (one, other, ()) = Idempotency::new(MemoryStore::new()).scope(calls).await;
    one.unwrap();
    other.unwrap();
}
