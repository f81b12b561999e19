//! Duplicates of a running call that wait for its end.

use std::time::Duration;

use idempotence::{Idempotency, MemoryStore, idempotent};
use tokio::time::{Instant, sleep};

use crate::replay::{Done, fresh};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[idempotent(key = "id", ttl = "1m", wait = "2s", replay = true)]
async fn literal(id: u64) -> Done<u64> {
    sleep(secs(id)).await;
    Ok(id)
}

#[idempotent(key = "id", ttl = "1m", wait = patience)]
async fn expression(id: u64, patience: Duration) -> Done<u64> {
    sleep(secs(id)).await;
    Ok(id)
}

#[idempotent(key = "id", ttl = "1m", wait = "5s", release = true)]
async fn one_after_the_other(id: u64) -> Done<u64> {
    sleep(secs(id)).await;
    Ok(id)
}

struct Service {
    patience: Duration,
    idempotency: Idempotency,
}

impl Service {
    #[idempotent(
        key = "id",
        ttl = "1m",
        wait = self.patience * 2,
        replay = true,
        replay_err = |error: &String| error.starts_with("no"),
        error = |error| error.code().to_owned(),
        using = self.idempotency,
    )]
    async fn pay(&self, id: u64, outcome: Result<u64, &str>) -> Result<u64, String> {
        sleep(secs(id)).await;
        outcome.map_err(str::to_owned)
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_duplicate_gets_the_result_at_once() {
    fresh(async {
        let start = Instant::now();
        let (first, second) = tokio::join!(literal(1), literal(1));
        assert_eq!((first.unwrap(), second.unwrap()), (1, 1));
        assert_eq!(start.elapsed().as_millis(), 1000);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_duplicate_is_refused_when_its_wait_ends() {
    fresh(async {
        let start = Instant::now();
        let second = async {
            let refused = literal(5).await.unwrap_err();
            (refused.code(), start.elapsed().as_millis())
        };
        let (first, second) = tokio::join!(literal(5), second);
        assert_eq!((first.unwrap(), second), (5, ("in_progress", 2000)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_call_waits_as_long_as_its_own_expression() {
    fresh(async {
        let start = Instant::now();
        let refused = async |patience| {
            let refused = expression(5, patience).await.unwrap_err();
            (refused.code(), start.elapsed())
        };
        let (first, hasty, brief, patient) = tokio::join!(
            expression(5, secs(9)),
            refused(Duration::ZERO),
            refused(secs(3)),
            refused(secs(6)),
        );
        assert_eq!(first.unwrap(), 5);
        assert_eq!(hasty, ("in_progress", secs(0)));
        assert_eq!(brief.0, "in_progress");
        assert_eq!(brief.1.as_millis(), 3000);
        assert_eq!(patient.0, "already_done");
        assert_eq!(patient.1.as_millis(), 5000);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_released_key_goes_to_a_waiting_call() {
    fresh(async {
        let start = Instant::now();
        let calls = (
            one_after_the_other(1),
            one_after_the_other(1),
            one_after_the_other(1),
        );
        let (first, second, third) = tokio::join!(calls.0, calls.1, calls.2);
        for ended in [first, second, third] {
            assert_eq!(ended.unwrap(), 1);
        }
        assert_eq!(start.elapsed().as_secs(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_gets_a_chosen_error_and_runs_after_another_error() {
    let service = Service {
        patience: secs(2),
        idempotency: Idempotency::new(MemoryStore::new()),
    };
    for (outcome, second) in [
        (Ok(1), Ok(1)),
        (Err("no money"), Err("no money".to_owned())),
        (Err("try again"), Ok(2)),
    ] {
        let idempotency = Idempotency::new(MemoryStore::new());
        let service = Service {
            idempotency,
            ..service
        };
        let calls = tokio::join!(service.pay(1, outcome), service.pay(1, Ok(2)));
        assert_eq!(calls, (outcome.map_err(str::to_owned), second));
    }
    let start = Instant::now();
    let calls = tokio::join!(service.pay(5, Ok(1)), async {
        let refused = service.pay(5, Ok(2)).await;
        (refused, start.elapsed().as_millis())
    });
    assert_eq!(calls, (Ok(1), (Err("in_progress".to_owned()), 4000)));
}
