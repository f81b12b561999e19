//! From a URL to a pool.

use std::error::Error;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Pool};
use tokio::time::{sleep, timeout};

use crate::sql::database::Database;
use crate::sql::database::connect::CONNECT_DEADLINE;
use crate::sql::failure;
use crate::sql::migrate::migrate_on;
use crate::sql::retryable::is_retryable;
use crate::sql::url::{self, invalid_url};
use crate::store::{StoreError, StoreErrorKind};

const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn connect<DB: Database>(url: &str) -> Result<Pool<DB>, StoreError> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| DB::SCHEMES.contains(&scheme)) {
        let expected = DB::SCHEMES.join(":`, `");
        return Err(invalid_url(format!(
            "this store is for URLs that begin with `{expected}:`"
        )));
    }
    url::check(url, DB::PARAMETERS)?;
    // The client's own words on a URL repeat what is in it.
    let (options, pool_options) = DB::options(url).map_err(|_| {
        invalid_url("the URL cannot be read: what is percent-encoded in it has to be UTF-8")
    })?;
    let server = DB::server(&options);
    if let Some(server) = &server {
        server.warn(DB::NAME);
    }
    let user = server.map(|server| server.user);
    let connecting = async {
        // A pool tries again and again, and does not tell why it was in vain: this one does.
        let first = loop {
            match connect_and_migrate::<DB>(&options, user).await {
                Err(error) if is_retryable(&error) => sleep(PAUSE).await,
                answer => break answer?,
            }
        };
        let pool = pool_options.connect_lazy_with(options.clone());
        // A database in memory ends with its last connection.
        drop(pool.acquire().await.map_err(failure::connect_failed)?);
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
async fn connect_and_migrate<DB: Database>(
    options: &<DB::Connection as Connection>::Options,
    user: Option<&str>,
) -> Result<DB::Connection, StoreError> {
    let connected = options.connect().await.map_err(failure::connect_failed);
    let mut connection = connected.map_err(|error| redact_user(user, error))?;
    migrate_on::<DB>(&mut connection).await?;
    Ok(connection)
}

/// The error, told without the name that logs in: where it should be, there may be the password.
fn redact_user(user: Option<&str>, error: StoreError) -> StoreError {
    let (Some(user), Some(source)) = (user, error.source()) else {
        return error;
    };
    let told = source.to_string();
    let untold = told
        .replace(&format!("\"{user}\""), "\"…\"")
        .replace(&format!("'{user}'"), "'…'");
    if told == untold {
        return error;
    }
    StoreError::new(error.kind(), untold)
}
