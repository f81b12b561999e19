//! Which successes and errors are stored, and what a duplicate gets.

use std::time::Duration;

use idempotence::{Duplicate, DuplicateState, Error, EventKind, Once, Outcome, Replay, idempotent};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::replay::{Done, REPLAYED, ends, fresh, replays};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum PayError {
    NoMoney { missing: u64 },
    TryAgain,
    Refused(String),
}

impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Refused(error.code().to_owned())
    }
}

impl PayError {
    fn is_final(&self) -> bool {
        matches!(self, Self::NoMoney { .. })
    }
}

fn refused(code: &str) -> Result<u64, PayError> {
    Err(PayError::Refused(code.to_owned()))
}

fn no_money() -> Result<u64, PayError> {
    Err(PayError::NoMoney { missing: 5 })
}

mod errors {
    use super::*;

    #[idempotent(key = "id", ttl = "1m", replay = true, replay_err = PayError::is_final)]
    async fn by_path(id: u64, outcome: Result<u64, PayError>) -> Result<u64, PayError> {
        let _ = id;
        tokio::task::yield_now().await;
        outcome
    }

    #[idempotent(
        key = "id",
        ttl = "1m",
        replay = true,
        replay_err = |error| matches!(error, PayError::NoMoney { .. }),
    )]
    async fn by_closure(id: u64, outcome: Result<u64, PayError>) -> Result<u64, PayError> {
        let _ = id;
        outcome
    }

    #[idempotent(key = "id", ttl = "1m", replay = true, replay_err = |_| true, on_cancel = "finish")]
    async fn finishing(id: u64, error: PayError) -> Result<Once<u64>, PayError> {
        let _ = id;
        tokio::task::yield_now().await;
        Err(error)
    }

    /// Like an error type of another crate: without a conversion from [`Error`].
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Status(u16);

    #[idempotent(
        key = "id",
        ttl = "1m",
        replay = true,
        error = |error| Status(if error.is_duplicate() { 409 } else { 503 }),
        replay_err = |status| (400..500).contains(&status.0),
    )]
    async fn converted(id: u64, status: u16) -> Result<u64, Status> {
        let _ = id;
        Err(Status(status))
    }

    #[tokio::test]
    async fn a_chosen_error_is_given_to_duplicates() {
        for calls in [
            ends(async {
                assert_eq!(by_path(1, no_money()).await, no_money());
                assert_eq!(by_path(1, Ok(1)).await, no_money());
            })
            .await,
            ends(async {
                assert_eq!(by_closure(1, no_money()).await, no_money());
                assert_eq!(by_closure(1, Ok(1)).await, no_money());
            })
            .await,
            ends(async {
                assert_eq!(
                    finishing(1, PayError::TryAgain).await,
                    Err(PayError::TryAgain)
                );
                let other = PayError::NoMoney { missing: 5 };
                assert_eq!(finishing(1, other).await, Err(PayError::TryAgain));
            })
            .await,
            ends(async {
                assert_eq!(converted(1, 402).await, Err(Status(402)));
                assert_eq!(converted(1, 404).await, Err(Status(402)));
            })
            .await,
        ] {
            assert_eq!(calls, [EventKind::Failed, EventKind::Replayed]);
        }
    }

    #[tokio::test]
    async fn an_error_that_is_not_chosen_frees_the_key() {
        let again = Err(PayError::TryAgain);
        let calls = ends(async {
            assert_eq!(by_path(1, again.clone()).await, again);
            assert_eq!(by_path(1, Ok(7)).await, Ok(7));
            assert_eq!(by_path(1, Ok(8)).await, Ok(7));
        });
        let [.., replayed] = REPLAYED;
        assert_eq!(
            calls.await,
            [EventKind::Failed, EventKind::Executed, replayed]
        );
        fresh(async {
            assert_eq!(converted(1, 500).await, Err(Status(500)));
            assert_eq!(converted(1, 402).await, Err(Status(402)));
            assert_eq!(converted(1, 500).await, Err(Status(402)));
        })
        .await;
    }
}

mod successes {
    use super::*;

    #[idempotent(key = "id", ttl = "1m", replay = true, success = |_| true)]
    async fn always(id: u64, outcome: Result<u64, PayError>) -> Result<u64, PayError> {
        let _ = id;
        outcome
    }

    #[idempotent(
        key = "id",
        ttl = "1m",
        replay = true,
        replay_err = PayError::is_final,
        success = |outcome| !matches!(outcome, Ok(0)),
    )]
    async fn positive(id: u64, outcome: Result<u64, PayError>) -> Result<u64, PayError> {
        let _ = id;
        outcome
    }

    #[tokio::test]
    async fn an_error_that_counts_as_a_success_is_done_but_not_stored() {
        fresh(async {
            assert_eq!(always(1, no_money()).await, no_money());
            assert_eq!(always(1, Ok(1)).await, refused("already_done"));
            assert_eq!(always(2, Ok(2)).await, Ok(2));
            assert_eq!(always(2, Ok(3)).await, Ok(2));
        })
        .await;
    }

    #[tokio::test]
    async fn a_value_without_success_frees_the_key() {
        fresh(async {
            assert_eq!(positive(1, Ok(0)).await, Ok(0));
            assert_eq!(positive(1, Ok(1)).await, Ok(1));
            assert_eq!(positive(1, Ok(0)).await, Ok(1));
        })
        .await;
    }

    #[tokio::test]
    async fn a_chosen_error_is_stored_also_if_it_is_no_success() {
        fresh(async {
            assert_eq!(positive(1, no_money()).await, no_money());
            assert_eq!(positive(1, Ok(1)).await, no_money());
            let again = Err(PayError::TryAgain);
            assert_eq!(positive(2, again.clone()).await, again);
            assert_eq!(positive(2, Ok(1)).await, refused("already_done"));
        })
        .await;
    }
}

mod off {
    use super::*;

    /// With `replay = false` the result need not be serializable.
    #[derive(Debug)]
    struct Unserializable;

    #[idempotent(key = "id", ttl = "1m", replay = false)]
    async fn plain(id: u64) -> Done<Unserializable> {
        let _ = id;
        Ok(Unserializable)
    }

    #[idempotent(key = "id", ttl = "1m", replay = false, release = true)]
    async fn released(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[tokio::test]
    async fn replay_false_stores_nothing() {
        fresh(async {
            plain(1).await.unwrap();
            assert_eq!(plain(1).await.unwrap_err().code(), "already_done");
            released(1).await.unwrap();
            released(1).await.unwrap();
        })
        .await;
    }
}

mod duplicates {
    use super::*;

    fn pending(duplicate: &Duplicate, note: &str) -> String {
        format!("{note}: {:?}", duplicate.state())
    }

    #[idempotent(
        key = "id",
        ttl = "1m",
        replay = true,
        on_duplicate = |duplicate| Ok(pending(&duplicate, note)),
    )]
    async fn answered(id: u64, note: &str) -> Done<String> {
        sleep(Duration::from_secs(id)).await;
        Ok(note.to_owned())
    }

    #[idempotent(
        key = "id",
        ttl = "1m",
        replay = true,
        replay_err = PayError::is_final,
        success = |_| true,
        on_duplicate = |duplicate| { assert_eq!(duplicate.state(), DuplicateState::Done); Ok(0) },
    )]
    async fn of_errors(id: u64, error: PayError) -> Result<u64, PayError> {
        let _ = id;
        Err(error)
    }

    #[tokio::test(start_paused = true)]
    async fn with_replay_on_duplicate_answers_only_without_a_stored_result() {
        fresh(async {
            let (first, second) = tokio::join!(answered(1, "a"), answered(1, "b"));
            assert_eq!((&*first.unwrap(), &*second.unwrap()), ("a", "b: Running"));
            assert_eq!(answered(1, "c").await.unwrap(), "a");
        })
        .await;
    }

    #[tokio::test]
    async fn on_duplicate_answers_for_a_call_that_stored_no_result() {
        fresh(async {
            let again = PayError::TryAgain;
            assert_eq!(of_errors(1, again.clone()).await, Err(again.clone()));
            assert_eq!(of_errors(1, again.clone()).await, Ok(0));
            let stored = PayError::NoMoney { missing: 5 };
            assert_eq!(of_errors(2, stored.clone()).await, Err(stored.clone()));
            assert_eq!(of_errors(2, again).await, Err(stored));
        })
        .await;
    }
}

mod outcomes {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Reply {
        Created(u64),
        Refused(&'static str),
    }

    impl Outcome for Reply {
        fn refused(error: Error) -> Self {
            Self::Refused(error.code())
        }

        fn is_success(&self) -> bool {
            matches!(self, Self::Created(_))
        }
    }

    impl Replay for Reply {
        type Kept = u64;

        fn kept(&self) -> Option<impl Serialize> {
            match self {
                Self::Created(id) => Some(id),
                Self::Refused(_) => None,
            }
        }

        fn replayed(id: u64) -> Self {
            Self::Created(id)
        }
    }

    #[idempotent(key = "id", ttl = "1m", replay = true, payload = "amount")]
    async fn named(id: u64, amount: u64) -> Reply {
        Reply::Created(id + amount)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn unnamed(id: u64) -> impl Outcome + Replay + PartialEq<Reply> {
        Reply::Created(id)
    }

    #[tokio::test]
    async fn a_return_type_with_its_own_replay_decides_what_is_stored() {
        let calls = async {
            assert_eq!(named(1, 5).await, Reply::Created(6));
            assert_eq!(named(1, 5).await, Reply::Created(6));
        };
        assert_eq!(ends(calls).await, REPLAYED);
        fresh(async {
            assert_eq!(named(1, 5).await, Reply::Created(6));
            assert_eq!(named(1, 6).await, Reply::Refused("payload_mismatch"));
            assert!(unnamed(1).await == Reply::Created(1));
            assert!(unnamed(1).await == Reply::Created(1));
        })
        .await;
    }
}

#[idempotent(key = "id", ttl = "1m", replay = true, on_cancel = "finish")]
async fn finishing(id: u64) -> Done<u64> {
    sleep(Duration::from_secs(5)).await;
    Ok(id)
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_body_that_outlives_its_caller_is_stored() {
    replays!(finishing(1) => 1);
    let idempotency = idempotence::Idempotency::new(idempotence::MemoryStore::new());
    let call = idempotency.scope(finishing(1));
    let dropped = tokio::time::timeout(Duration::from_secs(1), call).await;
    assert!(dropped.is_err());
    idempotency.drain(Duration::from_secs(10)).await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(idempotency.scope(finishing(1)).await.unwrap(), 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}
