//! Calls of two processes that find a key taken: by an equal call, or by a call that does other work.

use std::time::Duration;

use idempotent_runtime::{Error, GuardedCall, Idempotency, Release};

/// Checks which calls of both handles are duplicates of a running call: with several keys only a call with the same keys, with permits
/// none.
pub async fn assert_only_equal_calls_are_duplicates([here, there]: [Idempotency; 2]) {
    let transfer =
        |handle: &Idempotency, (from, to): (u64, u64)| lock(handle, "transfer", from).also(&to);
    let body = async {
        for handle in [&here, &there] {
            for accounts in [(1, 2), (2, 1), (1, 3), (3, 1), (3, 2), (1, 1)] {
                let refused = refusal(transfer(handle, accounts)).await;
                assert_eq!(refused.is_duplicate(), accounts == (1, 2), "{accounts:?}");
                assert_eq!(refused.is_silent(), accounts == (1, 2), "{accounts:?}");
            }
            assert!(!refusal(lock(handle, "transfer", 2)).await.is_duplicate());
        }
        Ok::<_, Error>(())
    };
    transfer(&here, (1, 2)).run(body).await.unwrap();
    for permits in [1, 2] {
        let export = |handle: &Idempotency| lock(handle, "export", 1).permits(permits);
        let body = async {
            for handle in [&here, &there] {
                let refused = refusal(export(handle)).await;
                assert!(!refused.is_duplicate() && !refused.is_silent(), "{permits}");
            }
            Ok::<_, Error>(())
        };
        let last = Box::pin(async { export(&there).run(body).await });
        if permits == 1 {
            last.await.unwrap();
        } else {
            export(&here).run(last).await.unwrap();
        }
    }
}

fn lock(handle: &Idempotency, name: &'static str, key: u64) -> GuardedCall {
    // With `release = true` the `ttl` is also the lease, which no slow machine exceeds.
    let call = handle.call(name).key(&key).ttl(Duration::from_mins(5));
    call.release(Release::Always)
}

async fn refusal(call: GuardedCall) -> Error {
    let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
    assert_eq!(refused.code(), "in_progress", "{refused}");
    refused
}
