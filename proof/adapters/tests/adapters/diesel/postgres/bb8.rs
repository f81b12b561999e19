//! A pool of bb8 for diesel-async.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8};

use super::{LibraryError, POOL_ROUND_TRIPS, send_begun};

#[path = "../../begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;

type DB = sqlx::Postgres;
type Pool = bb8::Pool<AsyncPgConnection>;

async fn open_pool(url: &str, size: u32) -> Pool {
    let manager = AsyncDieselConnectionManager::new(url);
    let pool = Pool::builder().test_on_check_out(false);
    pool.max_size(size).build_unchecked(manager)
}
