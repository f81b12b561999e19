//! The option `also`, as users write it.

use std::time::Duration;

use idempotence::{Error, Idempotency, MemoryStore, Release, idempotent};
use tokio::sync::Notify;

#[idempotent(
    key = "tenant, from",
    also = "tenant, to",
    name = "transfer",
    ttl = "1m",
    release = true
)]
async fn transfer(tenant: &str, from: u64, to: u64, end: &Notify) -> Result<(), Error> {
    end.notified().await;
    Ok(())
}

#[idempotent(
    key = (from),
    also = [to, (fees + 1)],
    ttl = "1m",
    release = true,
    on_cancel = "finish",
    context = cx,
)]
async fn with_fees(from: u64, to: u64, fees: u64) -> Result<String, Error> {
    Ok(cx.key())
}

#[idempotent(key = "from", also = "to", ttl = "1m", release = true, when = to.is_some())]
async fn to_some(from: u64, to: Option<u64>) -> Result<u64, Error> {
    Ok(from + to.unwrap_or(0))
}

async fn scoped(calls: impl Future<Output = ()>) {
    Idempotency::new(MemoryStore::new()).scope(calls).await;
}

/// How a transfer ends that is ended at once.
async fn ends(tenant: &str, from: u64, to: u64) -> &'static str {
    let end = Notify::new();
    end.notify_one();
    let ended = transfer(tenant, from, to, &end).await;
    ended.map_or_else(|error| error.code(), |()| "done")
}

#[tokio::test]
async fn transfers_that_share_an_account_exclude_each_other() {
    scoped(async {
        let end = Notify::new();
        let others = async {
            for (from, to) in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2), (2, 2)] {
                assert_eq!(ends("a", from, to).await, "in_progress", "{from} to {to}");
            }
            assert_eq!(ends("a", 3, 4).await, "done");
            assert_eq!(ends("b", 1, 2).await, "done");
            end.notify_one();
        };
        let (ended, ()) = tokio::join!(transfer("a", 1, 2, &end), others);
        ended.unwrap();
        assert_eq!(ends("a", 2, 1).await, "done");
        assert_eq!(
            ends("a", 7, 7).await,
            "done",
            "an account may be named twice"
        );
    })
    .await;
}

#[tokio::test]
async fn the_builder_has_the_same_keys() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let end = Notify::new();
    let other = async {
        for from in [1_u64, 2] {
            let call = idempotency.call("transfer").key("a").key(&from);
            let call = call.ttl(Duration::from_mins(1)).release(Release::Always);
            let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
            assert_eq!(refused.code(), "in_progress");
        }
        end.notify_one();
    };
    let (ended, ()) = tokio::join!(idempotency.scope(transfer("a", 1, 2, &end)), other);
    ended.unwrap();
}

#[tokio::test]
async fn several_keys_are_expressions_in_brackets() {
    scoped(async {
        let one = with_fees(1, 2, 3).await.unwrap();
        assert_eq!(
            one,
            with_fees(1, 4, 5).await.unwrap(),
            "the key names the call"
        );
        assert_eq!(to_some(1, None).await.unwrap(), 1);
        assert_eq!(to_some(1, Some(2)).await.unwrap(), 3);
    })
    .await;
}
