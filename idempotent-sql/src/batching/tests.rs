//! What batches of a database must keep. Each rule has a broken variant, and its test must find the mistake.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use idempotent_runtime::port::sql::poll_last;
use idempotent_runtime::store::{Claim, Store, Swap};
use sqlx::raw_sql;
use tokio::runtime::Builder;
use tokio::task::yield_now;

use crate::mutation::{self, Mutation};
use crate::store::SqliteStore;

/// Checks that batches keep a rule and that their broken variant does not.
fn assert_kept<F: Future<Output = bool>>(rule: impl Fn(SqliteStore) -> F, mistake: Mutation) {
    let in_runtime = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let store = SqliteStore::connect("sqlite::memory:").await;
            let store = store.expect("a database in memory");
            rule(store).await
        })
    };
    mutation::assert_kept(in_runtime, &[mistake]);
}

const VALUE: Bytes = Bytes::from_static(b"value");
const TTL: Duration = Duration::from_mins(1);

fn keys() -> Vec<String> {
    (0..20).map(|key| format!("key {key}")).collect()
}

async fn claim(store: &SqliteStore, key: &str) -> Option<Claim> {
    store.claim(key, &VALUE, TTL).await.ok()
}

async fn is_stored(store: &SqliteStore, key: &str) -> bool {
    let stored = store.get(key).await;
    stored.expect("a database in memory").is_some()
}

#[test]
fn a_change_that_is_dropped_before_its_batch_has_a_connection_is_not_sent() {
    let rule = async |store: SqliteStore| {
        let taken = store.pool().acquire().await.unwrap();
        let keys = keys();
        let claims = keys.iter().map(|key| Box::pin(claim(&store, key)));
        let mut claims: Vec<_> = claims.collect();
        for claim in &mut claims {
            assert!(claim.now_or_never().is_none());
        }
        for _ in 0..10 {
            yield_now().await;
        }
        // The batch with the last change waits for the connection.
        let last = claims.pop().unwrap();
        drop(claims);
        drop(taken);
        assert_eq!(last.await, Some(Claim::Claimed));
        for key in &keys[..keys.len() - 1] {
            if is_stored(&store, key).await {
                return false;
            }
        }
        true
    };
    assert_kept(rule, Mutation::SendsWithdrawn);
}

#[test]
fn a_change_that_fails_does_not_answer_for_the_others() {
    let rule = async |store: SqliteStore| {
        let refuse = raw_sql(
            "CREATE TRIGGER good BEFORE INSERT ON idempotence WHEN NEW.key = 'key 10' \
             BEGIN SELECT RAISE(ABORT, 'bad'); END",
        );
        refuse.execute(store.pool()).await.unwrap();
        let keys = keys();
        let claims = join_all(keys.iter().map(|key| claim(&store, key))).await;
        for (key, claim) in keys.iter().zip(claims) {
            let expected = (key != "key 10").then_some(Claim::Claimed);
            if claim != expected || is_stored(&store, key).await != claim.is_some() {
                return false;
            }
        }
        true
    };
    assert_kept(rule, Mutation::AnswersForAll);
}

#[test]
fn a_claim_and_its_removal_keep_their_order() {
    let rule = async |store: SqliteStore| {
        let keys = keys();
        let changes = keys.iter().map(async |key| {
            let value = VALUE;
            let removal = store.remove(key, &value);
            let (claim, removal) = join(claim(&store, key), removal).await;
            claim == Some(Claim::Claimed) && removal.unwrap() == Swap::Done
        });
        join_all(changes).await.into_iter().all(|kept| kept)
    };
    assert_kept(rule, Mutation::LosesOrder);
}

#[test]
fn a_change_that_waits_for_a_connection_until_its_last_poll_says_so() {
    let rule = async |store: SqliteStore| {
        let taken = store.pool().acquire().await.unwrap();
        let keys = keys();
        let claims = keys.iter().map(|key| async {
            let claim = store.claim(key, &VALUE, TTL).await;
            claim.map_err(|error| error.to_string())
        });
        let mut claims: Vec<_> = claims.map(Box::pin).collect();
        for claim in &mut claims {
            assert!(claim.now_or_never().is_none());
        }
        yield_now().await;
        let last = claims
            .iter_mut()
            .map(|claim| poll_last(|| claim.now_or_never()));
        let last: Vec<_> = last.collect();
        drop(taken);
        last.into_iter().all(|answer| match answer {
            Some(Err(text)) => text.contains("had no free connection in time"),
            _ => false,
        })
    };
    assert_kept(rule, Mutation::HidesExhaustedPool);
}
