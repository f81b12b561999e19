//! What only databases with a network connection can do: count round trips, and run two writers at a time.

use idempotent_runtime::{Error, Idempotency};
use sqlx::Connection as _;
use tokio::sync::Barrier;
use url::Url;

use crate::tx::databases::{Subject, Tx, insert, payments, pool, pool_at};
use crate::tx::{MAX_WAIT, Trouble, causes, handle, is_retryable, paying};
use support::turns::Turns;

on_every_server! {
    one_of_two_calls_in_a_deadlock_is_retryable
    a_call_takes_one_round_trip_and_two_with_replay
}

async fn one_of_two_calls_in_a_deadlock_is_retryable<DB: Subject>() {
    let (pool, (handle, _), barrier) = (pool::<DB>().await, handle(), Barrier::new(2));
    let (one, other) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let outcomes: [_; 2] = tokio::join!(
        pays_both(&handle, one, [1, 2], &barrier),
        pays_both(&handle, other, [2, 1], &barrier),
    )
    .into();
    let refused: Vec<_> = outcomes
        .iter()
        .filter_map(|outcomes| outcomes.as_ref().err())
        .collect();
    let [refused] = refused[..] else {
        panic!("{outcomes:?}");
    };
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert!(is_retryable(refused), "{}", causes(refused));
    assert_eq!(payments(&pool).await, 2);
}

/// Claims two keys in this order. Rolls the transaction back if the database asks for a retry.
async fn pays_both<DB: Subject>(
    handle: &Idempotency,
    mut tx: Tx<DB>,
    keys: [u32; 2],
    both_hold_one: &Barrier,
) -> Result<(), Error> {
    for key in keys {
        let paid = paying(handle, key)
            .wait(MAX_WAIT)
            .run_in(&mut tx, async |tx: &mut DB::Connection| {
                Ok::<_, Trouble>(insert(tx, key).await?)
            })
            .await;
        if let Err(error) = paid {
            tx.rollback().await.unwrap();
            return Err(error.refusal());
        }
        if key == keys[0] {
            both_hold_one.wait().await;
        }
    }
    tx.commit().await.unwrap();
    Ok(())
}

async fn a_call_takes_one_round_trip_and_two_with_replay<DB: Subject>() {
    let (url, (handle, _)) = (DB::url(), handle());
    pool_at::<DB>(&url).await;
    let mut url: Url = url.parse().unwrap();
    let turns = Turns::before(url.port().unwrap()).await;
    url.set_port(Some(turns.port())).unwrap();
    let mut connection = DB::Connection::connect(url.as_str()).await.unwrap();
    let body = async |_: &mut DB::Connection| Ok::<_, Trouble>(1);
    let mut counted = Vec::new();
    // The first execution of a statement also prepares it, so it is not counted.
    for order in [0, 0, 1, 1] {
        let mut tx = connection.begin().await.unwrap();
        let before = turns.count();
        paying(&handle, order)
            .replay()
            .run_in(&mut tx, body)
            .await
            .unwrap();
        counted.push(turns.count() - before);
        let before = turns.count();
        let _ = paying(&handle, order + 7).run_in(&mut tx, body).await;
        counted.push(turns.count() - before);
        tx.commit().await.unwrap();
    }
    // The order: with replay, without replay, and duplicates of both.
    assert_eq!(counted[4..], [2, 1, 2, 2]);
}
