//! The examples of the libraries.
#![allow(dead_code, unreachable_pub)]

use idempotence::Error;

use crate::setting::Database;

#[path = "../../examples/diesel_async.rs"]
mod diesel_async_example;
#[path = "../../examples/sea_orm.rs"]
mod sea_orm_example;
#[path = "../../examples/sqlx_08.rs"]
mod sqlx_08_example;
#[path = "../../examples/tokio_postgres.rs"]
mod tokio_postgres_example;

macro_rules! example {
    ($test:ident, $example:ident) => {
        #[tokio::test]
        async fn $test() {
            use $example::{OrderError, Shop};

            let database = Database::<sqlx::Postgres>::empty().await;
            let shop = Shop::open(&database.url).await.unwrap();
            let id = shop.place("2026-0042", 500).await.unwrap();
            assert_eq!(shop.place("2026-0042", 500).await.unwrap(), id);
            let other = shop.place("2026-0042", 900).await.unwrap_err();
            let is_refused = matches!(other, OrderError::Refused(Error::PayloadMismatch(_)));
            assert!(is_refused, "{other:?}");
            // Two calls at once, one of which waits for the other.
            let both = tokio::join!(shop.place("2026-0043", 1), shop.place("2026-0043", 1));
            assert_eq!(both.0.unwrap(), both.1.unwrap());
            let mut both: [_; 2] = tokio::join!(shop.ship(id), shop.ship(id)).into();
            both.sort_by_key(|is_first| matches!(is_first, Ok(true)));
            assert!(matches!(both, [Ok(false), Ok(true)]), "{both:?}");
            let unknown = shop.ship(id + 99).await.unwrap_err();
            assert!(matches!(unknown, OrderError::NotPaid), "{unknown:?}");
            assert_eq!(database.number("SELECT count(*) FROM orders").await, 2);
            assert_eq!(database.payments().await, 2);
        }
    };
}

example!(
    an_order_in_tokio_postgres_is_placed_once,
    tokio_postgres_example
);
example!(an_order_in_diesel_is_placed_once, diesel_async_example);
example!(an_order_in_sea_orm_is_placed_once, sea_orm_example);
example!(an_order_in_sqlx_08_is_placed_once, sqlx_08_example);
