//! Connections to a database that are closed at random bytes, also in the middle of a message.

use std::time::Duration;

use idempotent_runtime::Idempotency;
use idempotent_sql::SqlStore;
use idempotent_sql::sql::sqlx::pool::PoolOptions;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use url::Url;

use crate::store::databases::{Fresh, connected};
use support::orders::Orders;
use support::patient::patient;
use support::wire::CutBytes;

on_every_server! {
    a_connection_that_is_cut_at_any_byte_gives_no_result_of_another_key_and_repeats_no_body
}

async fn a_connection_that_is_cut_at_any_byte_gives_no_result_of_another_key_and_repeats_no_body<
    DB: Fresh,
>() {
    let url = DB::url();
    let direct = patient(connected::<DB>(&url).await);
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
    let mut orders = Orders::new();
    while cuts.connections() < 60 {
        orders.pay_all(&handle).await;
    }
    orders.pay_all(&direct).await;
    orders.check();
}
