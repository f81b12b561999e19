//! Connections to a database that are closed at random bytes, also in the middle of a message.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::sql::sqlx::pool::PoolOptions;
use idempotent_runtime::{Error, Idempotency, SqlStore};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use url::Url;

use crate::store::databases::Fresh;
use support::wire::CutBytes;

on_every_server! {
    a_connection_that_is_cut_at_any_byte_gives_no_result_of_another_key_and_repeats_no_body
}

const ORDERS: Range<usize> = 0..30;

/// Pays an order. Its result is its number.
async fn pay(handle: &Idempotency, order: usize, runs: &[AtomicUsize]) -> Result<usize, Error> {
    let call = handle.call("orders.pay").key(&order);
    let call = call.ttl(Duration::from_hours(1)).replay();
    let body = async {
        runs[order].fetch_add(1, Ordering::Relaxed);
        Ok(order)
    };
    call.run(body).await
}

async fn a_connection_that_is_cut_at_any_byte_gives_no_result_of_another_key_and_repeats_no_body<
    DB: Fresh,
>() {
    let url = DB::url();
    let direct = Idempotency::new(SqlStore::<DB>::connect(&url).await.unwrap());
    let port = url.parse::<Url>().unwrap().port().unwrap();
    let mut random = StdRng::seed_from_u64(33);
    // The messages of a new connection have some thousand bytes.
    let cuts = CutBytes::new(
        port,
        std::iter::repeat_with(move || random.random_range(1..20_000)),
    );
    let pool = PoolOptions::<DB>::new().max_connections(4);
    let pool = pool
        .acquire_timeout(Duration::from_secs(1))
        .test_before_acquire(false);
    let pool = pool.connect_lazy_with(cuts.url(&url).parse().unwrap());
    let store = SqlStore::new(pool);
    let handle = Idempotency::builder(store)
        .deadline(Duration::from_millis(500))
        .build();
    let handle = handle.unwrap();
    let runs = ORDERS.map(|_| AtomicUsize::new(0)).collect::<Vec<_>>();
    let mut answered = 0;
    while cuts.connections() < 60 {
        let answers = join_all(ORDERS.map(|order| pay(&handle, order, &runs))).await;
        for (order, answer) in ORDERS.zip(answers) {
            match answer {
                Ok(result) => {
                    assert_eq!(result, order);
                    answered += 1;
                }
                Err(error) => {
                    let expected = error.is_unavailable() || matches!(error, Error::InProgress(_));
                    assert!(expected, "{error:?}");
                }
            }
        }
    }
    // The store sends most operations again on another connection.
    assert!(answered > 0, "every call was refused");
    for order in ORDERS {
        match pay(&direct, order, &runs).await {
            Ok(result) => assert_eq!(result, order),
            Err(error) => assert!(matches!(error, Error::InProgress(_)), "{error:?}"),
        }
        assert!(
            runs[order].load(Ordering::Relaxed) <= 1,
            "order {order} ran again"
        );
    }
}
