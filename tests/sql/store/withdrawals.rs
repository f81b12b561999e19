//! Callers that drop their calls while the store is busy.

use std::time::Duration;

use futures_util::FutureExt as _;
use idempotent_runtime::Error;

use crate::store::databases::{Fresh, TTL, narrow, store};
use support::dropping::victims_of_drops;
use support::patient::patient;

on_every_database! {
    callers_that_drop_their_calls_refuse_no_other_caller
    a_call_that_is_dropped_before_its_claim_is_sent_withdraws_nothing
}

/// A backlog of withdrawals would hold up the other callers until their deadline.
async fn callers_that_drop_their_calls_refuse_no_other_caller<DB: Fresh>() {
    victims_of_drops(store::<DB>().await).await.assert_well();
}

/// The claims wait for the only connection of the pool, alone or as a batch.
async fn a_call_that_is_dropped_before_its_claim_is_sent_withdraws_nothing<DB: Fresh>() {
    for batch in [true, false] {
        let store = narrow::<DB>(&DB::url()).await.batch(batch);
        let idempotency = patient(store.clone());
        let taken = store.pool().acquire().await.unwrap();
        let call = |id| {
            let call = idempotency.call("orders.pay").key(&id).ttl(TTL);
            Box::pin(call.run(async { Ok::<_, Error>(()) }))
        };
        let mut calls: Vec<_> = (0..10).map(call).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        drop(calls);
        // A withdrawal would wait for the connection.
        let drained = idempotency.drain(Duration::from_millis(1)).await;
        drained.unwrap();
        drop(taken);
        call(11).await.unwrap();
        let count = "SELECT count(*) FROM idempotence";
        assert_eq!(DB::number(store.pool(), count).await, 1);
    }
}
