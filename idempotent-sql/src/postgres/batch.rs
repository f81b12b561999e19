//! Many changes with one commit in PostgreSQL: one statement for all changes.
//!
//! Two batches cannot deadlock: new rows are inserted in the order of the keys, and after that the statement skips locked rows.

use bytes::Bytes;
use sqlx::error::DatabaseError;
use sqlx::{Connection as _, Executor as _, PgConnection, Postgres, Row as _, query};

use crate::database::batch::{Batch, Change, ChangeRequest, Failed, Found, Stage};

#[cfg(all(test, unix))]
mod tests;

/// $1 keys, $2 expected values, $3 values, $4 microseconds. A claim expects nothing, a renewal has no value, an exchange has no
/// microseconds, and a removal has neither. Returns the keys of the changes that are done.
///
/// An insertion would wait for a transaction that has changed the row, so only missing rows are inserted. A transaction with an
/// uncommitted new row of a claim delays the batch for the time of `lock_timeout`. Then its changes are sent
/// alone, where the session's `lock_timeout` holds. The setting ends with the statement.
///
/// A claim of a live record writes and locks nothing. A claim of an expired record replaces the record.
const CHANGE: &str = "
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]) AS wanted (key, expected, value, micros)
), inserted AS (
    INSERT INTO idempotence (key, value, expires_at)
    SELECT key, value, statement_timestamp() + micros * interval '1 microsecond' FROM wanted
    WHERE expected IS NULL AND (SELECT set_config('lock_timeout', '100ms', true)) IS NOT NULL
        AND NOT EXISTS (SELECT FROM idempotence AS stored WHERE stored.key = wanted.key)
    ORDER BY key COLLATE \"C\"
    ON CONFLICT (key) DO NOTHING
    RETURNING key
), locked AS (
    SELECT wanted.key, wanted.value, wanted.micros
    FROM wanted JOIN idempotence AS stored ON stored.key = wanted.key AND CASE WHEN wanted.expected IS NULL
        THEN stored.expires_at <= statement_timestamp()
        ELSE stored.expires_at > statement_timestamp() AND stored.value = wanted.expected END
    ORDER BY stored.key FOR UPDATE OF stored SKIP LOCKED
), updated AS (
    UPDATE idempotence AS stored SET value = coalesce(locked.value, stored.value),
        expires_at = coalesce(statement_timestamp() + locked.micros * interval '1 microsecond', stored.expires_at)
    FROM locked WHERE stored.key = locked.key AND (locked.value IS NOT NULL OR locked.micros IS NOT NULL)
    RETURNING stored.key
), removed AS (
    DELETE FROM idempotence AS stored USING locked
    WHERE stored.key = locked.key AND locked.value IS NULL AND locked.micros IS NULL
    RETURNING stored.key
)
SELECT key FROM inserted UNION ALL SELECT key FROM updated UNION ALL SELECT key FROM removed";

/// A statement of READ COMMITTED sees what was committed before it began.
///
/// A process that stops between two statements keeps its rows locked for the given time: then the server ends the session, and
/// nothing of the batch is applied.
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '1s'";

/// $1 keys. Without a value if this is large: the values of a batch are in memory at the same time.
const GET: &str = "
SELECT key, CASE WHEN octet_length(value) <= 16384 THEN value END FROM idempotence
WHERE key = ANY ($1) AND expires_at > statement_timestamp()";

impl Batch for Postgres {
    /// One round trip if all changes are done and none of them is a count. The record of another call is one more. Counts need
    /// a transaction, and each count is one more round trip.
    async fn change_many(
        connection: &mut PgConnection,
        requests: &[&ChangeRequest],
        most: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        let mut found: Vec<_> = requests.iter().map(|_| None).collect();
        let is_changed = !requests.iter().any(|request| is_count(request))
            && match change_all(connection, requests, &mut found).await {
                // The sessions of the pool are stricter than READ COMMITTED.
                Err(error) if is_serialization_failure(&error) => false,
                changed => changed.map(|()| true).map_err(failed)?,
            };
        if !is_changed {
            in_transaction(connection, requests, most, &mut found).await?;
        }
        // If this fails, the changes that are not done go alone.
        let _ = read_stored(connection, requests, &mut found).await;
        Ok(found)
    }
}

fn failed(error: sqlx::Error) -> Failed {
    Stage::Changes.failed(error)
}

fn is_count(request: &ChangeRequest) -> bool {
    matches!(request.change, Change::Count { .. })
}

fn is_serialization_failure(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.as_deref() == Some("40001")
}

/// Makes all changes, with counts, in one transaction.
async fn in_transaction(
    connection: &mut PgConnection,
    requests: &[&ChangeRequest],
    most: i32,
    found: &mut [Option<Found>],
) -> Result<(), Failed> {
    let begun = connection.begin_with(BEGIN).await;
    let mut transaction = begun.map_err(|error| Stage::Begin.failed(error))?;
    let changing = async {
        let changed = change_all(&mut transaction, requests, found).await;
        changed.map_err(failed)?;
        for (place, request) in requests.iter().enumerate() {
            if is_count(request) {
                let counted = request.send::<Postgres>(&mut transaction, most).await;
                found[place] = counted.map_err(|error| Stage::Change(place).failed(error))?;
            }
        }
        Ok(())
    };
    if let Err(failed) = changing.await {
        // A failed rollback is repeated before the connection is used again.
        let _ = transaction.rollback().await;
        return Err(failed);
    }
    let committed = transaction.commit().await;
    committed.map_err(|error| Stage::Commit.failed(error))
}

/// Makes all changes except counts, and notes which of them are done.
async fn change_all(
    connection: &mut PgConnection,
    requests: &[&ChangeRequest],
    found: &mut [Option<Found>],
) -> sqlx::Result<()> {
    let changes = requests
        .iter()
        .enumerate()
        .filter(|(_, request)| !is_count(request));
    let (mut places, mut keys) = (Vec::new(), Vec::new());
    let (mut expected, mut values, mut micros) = (Vec::new(), Vec::new(), Vec::new());
    for (place, request) in changes {
        let (old, new, remaining) = arguments(&request.change);
        places.push(place);
        keys.push(&*request.key);
        expected.push(old);
        values.push(new);
        micros.push(remaining);
    }
    if keys.is_empty() {
        return Ok(());
    }
    let change = query(statement()).bind(&keys).bind(&expected);
    let change = change.bind(&values).bind(&micros);
    for row in connection.fetch_all(change).await? {
        if let Ok(at) = keys.binary_search(&row.try_get(0)?) {
            found[places[at]] = Some(Found::Done);
        }
    }
    Ok(())
}

#[cfg(not(all(test, unix)))]
fn statement() -> &'static str {
    CHANGE
}

/// The statement, or a broken variant.
#[cfg(all(test, unix))]
fn statement() -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(tests::broken(CHANGE))
}

/// The expected value, the new value, and the microseconds of a change.
fn arguments(change: &Change) -> (Option<&[u8]>, Option<&[u8]>, Option<i64>) {
    match change {
        Change::Claim { value, micros } => (None, Some(value), Some(*micros)),
        Change::Renew { expected, micros } => (Some(expected), None, Some(*micros)),
        Change::Replace {
            expected,
            value,
            micros,
        } => (Some(expected), Some(value), Some(*micros)),
        Change::Exchange { expected, value } => (Some(expected), Some(value), None),
        Change::Remove { expected } => (Some(expected), None, None),
        Change::Count { .. } => (None, None, None),
    }
}

/// What is stored under a key.
#[derive(Clone)]
enum ReadValue {
    Nothing,
    Small(Bytes),
    Large,
}

/// Notes what is stored under the keys of the changes that are not done.
async fn read_stored(
    connection: &mut PgConnection,
    requests: &[&ChangeRequest],
    found: &mut [Option<Found>],
) -> sqlx::Result<()> {
    let is_read = |place: &usize| found[*place].is_none() && !is_count(requests[*place]);
    let places: Vec<usize> = (0..requests.len()).filter(is_read).collect();
    if places.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = places.iter().map(|place| &*requests[*place].key).collect();
    let stored = connection.fetch_all(query(GET).bind(&keys)).await?;
    let mut values = vec![ReadValue::Nothing; keys.len()];
    for row in stored {
        let (key, value): (&str, Option<&[u8]>) = (row.try_get(0)?, row.try_get(1)?);
        if let Ok(at) = keys.binary_search(&key) {
            values[at] = value.map_or(ReadValue::Large, |value| {
                ReadValue::Small(Bytes::copy_from_slice(value))
            });
        }
    }
    for (place, value) in places.into_iter().zip(values) {
        found[place] = match value {
            ReadValue::Nothing => requests[place].find(None),
            ReadValue::Small(value) => requests[place].find(Some(value)),
            // The change goes alone, and reads the record.
            ReadValue::Large => None,
        };
    }
    Ok(())
}
