//! The option `hold_err`, as users write it.

use idempotence::{Error, Idempotency, MemoryStore, idempotent};

#[derive(Debug, PartialEq)]
enum PayError {
    Timeout,
    Declined,
    Refused(&'static str),
}

impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Refused(error.code())
    }
}

impl PayError {
    fn is_timeout(&self) -> bool {
        *self == Self::Timeout
    }
}

type Paid = Result<u64, PayError>;

#[idempotent(key = "id", ttl = "1m", hold_err = PayError::is_timeout)]
async fn by_path(id: u64, outcome: Paid) -> Paid {
    let _ = id;
    outcome
}

#[idempotent(key = "id", ttl = "1m", release = true, hold_err = |error| *error == PayError::Timeout)]
async fn by_closure(id: u64, outcome: Paid) -> Paid {
    let _ = id;
    outcome
}

#[idempotent(key = "id", ttl = "1m", hold_err = |_| true, on_cancel = "finish", on_duplicate = |_| Ok(0))]
async fn finishing(id: u64, outcome: Paid) -> Paid {
    let _ = id;
    outcome
}

/// An error type of another crate, without a conversion from [`Error`].
#[derive(Debug, PartialEq)]
struct Status(u16);

#[idempotent(
    key = "id",
    ttl = "1m",
    error = |error| Status(error.http_status()),
    hold_err = |status| status.0 == 504,
)]
async fn converted(id: u64, outcome: Result<u64, Status>) -> Result<u64, Status> {
    let _ = id;
    outcome
}

async fn scoped(calls: impl Future<Output = ()>) {
    Idempotency::new(MemoryStore::new()).scope(calls).await;
}

#[tokio::test]
async fn a_chosen_error_reaches_its_caller_and_holds_the_key() {
    let unknown = || Err(PayError::Refused("outcome_unknown"));
    scoped(async {
        assert_eq!(
            by_path(1, Err(PayError::Timeout)).await,
            Err(PayError::Timeout)
        );
        assert_eq!(by_path(1, Ok(1)).await, unknown());
    })
    .await;
    scoped(async {
        assert_eq!(
            by_closure(1, Err(PayError::Timeout)).await,
            Err(PayError::Timeout)
        );
        assert_eq!(by_closure(1, Ok(1)).await, unknown());
    })
    .await;
    scoped(async {
        assert_eq!(
            finishing(1, Err(PayError::Timeout)).await,
            Err(PayError::Timeout)
        );
        assert_eq!(finishing(1, Ok(1)).await, unknown());
    })
    .await;
    scoped(async {
        assert_eq!(converted(1, Err(Status(504))).await, Err(Status(504)));
        assert_eq!(converted(1, Ok(1)).await, Err(Status(409)));
    })
    .await;
}

#[tokio::test]
async fn another_error_frees_the_key() {
    scoped(async {
        let declined = || Err(PayError::Declined);
        assert_eq!(by_path(1, declined()).await, declined());
        assert_eq!(by_path(1, Ok(1)).await, Ok(1));
    })
    .await;
}
