//! Connects to the database of a URL.

use std::error::Error;
use std::time::Duration;

use idempotent_driver::port::failure;
use idempotent_runtime::sql::is_retryable;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use sqlx::{ConnectOptions, Connection, Pool};
use tokio::time::{sleep, timeout};

use crate::database::Database;
use crate::database::connect::CONNECT_DEADLINE;
use crate::database::url::{self, StoreParameters, invalid_url};
use crate::migrate::migrate_on;

const PAUSE: Duration = Duration::from_millis(20);

/// A pool of connections to the database at `url`, and the parameters of the store.
pub(super) async fn connect<DB: Database>(
    url: &str,
) -> Result<(Pool<DB>, StoreParameters), StoreError> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| DB::SCHEMES.contains(&scheme)) {
        let expected = DB::SCHEMES.join(":`, `");
        return Err(invalid_url(format!("must begin with `{expected}:`")));
    }
    let (url, parameters) = url::check(url, DB::PARAMETERS)?;
    let url = &*url;
    // The client's error repeats parts of the URL, so it is not used.
    let (options, pool_options) = DB::options(url)
        .map_err(|_| invalid_url("cannot be decoded: its percent-encoded bytes must be UTF-8"))?;
    let place = DB::place(&options);
    let server = DB::server(&options);
    if let Some(server) = &server {
        server.warn(DB::NAME);
    }
    let user = server.map(|server| server.user);
    let mut conflict = None;
    let connecting = async {
        // This connection reports why it fails. A pool would retry until its timeout, and report only the timeout.
        let mut first = loop {
            match open::<DB>(&options, user, &place, parameters.migrate).await {
                Err(error) if is_retryable(&error) => {
                    conflict = Some(error);
                    sleep(PAUSE).await;
                }
                answer => break answer?,
            }
        };
        if DB::WRITE_NOTHING.is_some() && asks_for_read_only(url) {
            tracing::warn!(
                target: "idempotence", "{place} is opened only for reading, as its URL asks for: the store refuses every call (leave `mode` and \
                 `immutable` out of the URL to write)"
            );
        } else {
            refuse_read_only::<DB>(&mut first, &place).await?;
        }
        let pool = pool_options.connect_lazy_with(options.clone());
        // The pool must have a connection before the first connection is closed: a database in memory ends with its last
        // connection.
        let acquired = pool.acquire().await;
        drop(acquired.map_err(|error| failure::acquire_failed(error, &pool))?);
        let _ = first.close().await;
        Ok(pool)
    };
    match timeout(CONNECT_DEADLINE, connecting).await {
        Ok(connected) => connected.map(|pool| (pool, parameters)),
        Err(_) => Err(timed_out(conflict).place(place)),
    }
}

/// The error after the deadline. `conflict`: why the last attempt failed.
fn timed_out(conflict: Option<StoreError>) -> StoreError {
    match conflict {
        Some(error) => {
            let reason = format!("{}; this lasted for {CONNECT_DEADLINE:?}", error.why());
            StoreError::new(StoreErrorKind::Unknown, error).reason(reason)
        }
        None => StoreError::new(StoreErrorKind::Unknown, "connecting timed out").reason(format!(
            "did not answer within {CONNECT_DEADLINE:?} (check the host and the firewall)"
        )),
    }
}

/// Connects, and makes the tables that are missing, if `migrate` is set.
async fn open<DB: Database>(
    options: &<DB::Connection as Connection>::Options,
    user: Option<&str>,
    place: &str,
    migrate: bool,
) -> Result<DB::Connection, StoreError> {
    let connected = options.connect().await;
    let mut connection = connected.map_err(|error| {
        let failure = failure::open_failed::<DB>(error, options);
        redact_user(user, failure.into()).place(place.to_owned())
    })?;
    if migrate {
        migrate_on::<DB>(&mut connection, place).await?;
    }
    Ok(connection)
}

/// Fails if the file of the database is read-only. The first call would fail otherwise.
async fn refuse_read_only<DB: Database>(
    connection: &mut DB::Connection,
    place: &str,
) -> Result<(), StoreError> {
    let Some(write_nothing) = DB::WRITE_NOTHING else {
        return Ok(());
    };
    match DB::execute_all(connection, write_nothing.to_owned()).await {
        Err(error) if failure::is_read_only(&error) => {
            Err(failure::statement_failed(error, place.to_owned()).into())
        }
        // Another process may be writing, so the file is writable.
        _ => Ok(()),
    }
}

/// Whether the URL asks for a database that is only read.
fn asks_for_read_only(url: &str) -> bool {
    let (_, query) = url.split_once('?').unwrap_or_default();
    ["mode=ro", "immutable=1", "immutable=true"]
        .iter()
        .any(|parameter| query.contains(parameter))
}

/// Removes the user's name from the source of the error: in a wrong URL the password may be in its place.
fn redact_user(user: Option<&str>, error: StoreError) -> StoreError {
    let (Some(user), Some(source)) = (user, error.source()) else {
        return error;
    };
    let text = source.to_string();
    let redacted = text
        .replace(&format!("\"{user}\""), "\"…\"")
        .replace(&format!("'{user}'"), "'…'");
    if text == redacted {
        return error;
    }
    let reason = error.why().to_owned();
    StoreError::new(error.kind(), redacted).reason(reason)
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use sqlx::{Connection as _, Sqlite, SqliteConnection};

    use super::*;

    #[tokio::test]
    async fn a_database_that_cannot_be_written_is_refused() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let place = "sqlite /srv/app.db";
        migrate_on::<Sqlite>(&mut connection, place).await.unwrap();
        let refused = refuse_read_only::<Sqlite>(&mut connection, place).await;
        refused.expect("the database is writable");
        let read_only = sqlx::query("PRAGMA query_only = 1");
        read_only.execute(&mut connection).await.unwrap();
        let refused = refuse_read_only::<Sqlite>(&mut connection, place).await;
        let text = refused.expect_err("the database is read-only").to_string();
        assert_eq!(
            text,
            "sqlite /srv/app.db accepts no writes: the file is read-only (check the permissions of the file and its directory, \
             and `mode` in the URL)"
        );
    }
}
