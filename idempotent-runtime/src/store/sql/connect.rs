//! From a URL to a pool.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Pool};
use tokio::time::{sleep, timeout};

use crate::sql::schema::migrate_on;
use crate::sql::{Database, failure};
use crate::store::{StoreError, StoreErrorKind};

/// How long it takes at most until `connect` gives up, or the pool that it makes.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn connect<DB: Database>(url: &str) -> Result<Pool<DB>, StoreError> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| DB::SCHEMES.contains(&scheme)) {
        let expected = DB::SCHEMES.join(":`, `");
        let message = format!("this store is for URLs that begin with `{expected}:`");
        return Err(StoreError::new(StoreErrorKind::Misconfigured, message));
    }
    let (options, pool_options) = DB::options(url).map_err(failure::unsent)?;
    let connecting = async {
        // A pool tries again and again, and does not tell why it was in vain: this one does.
        let first = loop {
            match prepared::<DB>(&options).await {
                Err(error) if failure::is_retryable(&error) => sleep(PAUSE).await,
                answer => break answer?,
            }
        };
        let pool = pool_options.connect_lazy_with(options.clone());
        // A database in memory ends with its last connection.
        drop(pool.acquire().await.map_err(failure::unsent)?);
        // It ends in any case.
        let _ = first.close().await;
        Ok(pool)
    };
    timeout(CONNECT_DEADLINE, connecting)
        .await
        .unwrap_or_else(|_| {
            let message = format!("no answer from the database within {CONNECT_DEADLINE:?}");
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
}

/// A connection to a database that has the tables.
async fn prepared<DB: Database>(
    options: &<DB::Connection as Connection>::Options,
) -> Result<DB::Connection, StoreError> {
    let mut connection = options.connect().await.map_err(failure::unsent)?;
    migrate_on::<DB>(&mut connection).await?;
    Ok(connection)
}
