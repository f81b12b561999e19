//! The statements of the store.

use std::future::{Future, ready};

use bytes::Bytes;

use super::run::Execute;
use super::statement::{FixedStatement, Parameters};

/// The statements of the store for one database. Times to live are in microseconds by the database's clock.
pub trait Records: Execute {
    /// Whether the answer to a cancelled statement still arrives, and delays the answers to later statements.
    const ANSWERS_LATE: bool = true;

    /// The largest number of sends of one operation, including the first.
    const MAX_SENDS: u32 = 3;

    /// Whether one statement claims the first free of several keys. By default `false`.
    const CLAIMS_ANY: bool = false;

    /// The statements.
    const STATEMENTS: &'static Statements;

    /// Whether a failed claim means that the key has a row.
    fn has_row(_: &sqlx::Error) -> bool {
        false
    }

    /// Is sent if [`claim`](Statements::claim) stored nothing, and yet no live record has the key: claims the key, and replaces an
    /// expired record. `None` if the database needs no other statement, because `claim` replaces expired records.
    fn claim_expired(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<bool>>> + Send {
        let _ = (connection, key, value, micros);
        ready(Ok(None))
    }

    /// Claims all keys, which are sorted, by one statement. Returns whether it did; if not, it has stored nothing.
    fn claim_all(
        connection: &mut Self::Connection,
        claims: &[(&str, &Bytes)],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Claims the first free key by one statement, unless a key has the caller's own value. Returns the keys with a record, by their
    /// places and in their order: `None` for the own value, else the first `most` bytes of the other value. Is called only if
    /// [`CLAIMS_ANY`](Self::CLAIMS_ANY).
    fn claim_any(
        connection: &mut Self::Connection,
        claims: &[(&str, &Bytes)],
        micros: i64,
        most: i32,
    ) -> impl Future<Output = sqlx::Result<Vec<FoundKey>>> + Send {
        let _ = (connection, claims, micros, most);
        ready(Ok(Vec::new()))
    }

    /// The first `most` rows whose keys are not before `first`, in the order of the bytes of their keys, expired rows included.
    fn list(
        connection: &mut Self::Connection,
        first: &[u8],
        most: i64,
    ) -> impl Future<Output = sqlx::Result<Vec<ListedRow>>> + Send;
}

/// The place of a key, and its record if another caller wrote it.
pub(crate) type FoundKey = (usize, Option<Bytes>);

/// The statements on one record. Each commits by itself, unless the connection is in a transaction.
#[derive(Debug)]
pub struct Statements {
    /// Stores a new record if no live record has the key. A row that it does not replace is an error of [`has_row`](Records::has_row).
    pub(crate) claim: FixedStatement,
    /// Replaces the expected record.
    pub(crate) replace: FixedStatement,
    /// Replaces the expected record and does not change its remaining time.
    pub(crate) exchange: FixedStatement,
    /// Sets the remaining time of the expected record.
    pub(crate) renew: FixedStatement,
    /// Removes the expected record.
    pub(crate) remove: FixedStatement,
    /// Reads the first bytes of the live record, up to the limit, and its remaining microseconds.
    pub(crate) get: FixedStatement,
    /// Removes expired records, up to the limit.
    pub(crate) purge: FixedStatement,
}

/// Stores `value` under `key` if no live record has the key. Returns whether it did. Where it does not replace an expired record,
/// [`claim_expired`](Records::claim_expired) does.
pub(crate) async fn claim<DB: Records>(
    connection: &mut DB::Connection,
    key: &str,
    value: &[u8],
    micros: i64,
) -> sqlx::Result<bool> {
    let values = Parameters::new(key).with(value).micros(micros);
    match DB::change(connection, &DB::STATEMENTS.claim, values).await {
        Err(error) if DB::has_row(&error) => Ok(false),
        claimed => Ok(claimed? == 1),
    }
}

/// Removes `expected`. Returns whether it did.
pub(crate) async fn remove<DB: Records>(
    connection: &mut DB::Connection,
    key: &str,
    expected: &[u8],
) -> sqlx::Result<bool> {
    let values = Parameters::new(key).expected(expected);
    Ok(DB::change(connection, &DB::STATEMENTS.remove, values).await? == 1)
}

/// The first `limit` bytes of the live record under `key`, and its remaining microseconds.
pub(crate) async fn get<DB: Records>(
    connection: &mut DB::Connection,
    key: &str,
    limit: i32,
) -> sqlx::Result<Option<(Bytes, i64)>> {
    let values = Parameters::new(key).limit(limit);
    let found = DB::read_bytes(connection, &DB::STATEMENTS.get, values).await?;
    Ok(found.map(|(value, remaining)| (value.into(), remaining)))
}

/// Removes up to `limit` expired records. Returns their number.
pub(crate) async fn purge<DB: Records>(
    connection: &mut DB::Connection,
    limit: u32,
) -> sqlx::Result<u64> {
    let values = Parameters::default().limit(limit);
    DB::change(connection, &DB::STATEMENTS.purge, values).await
}

/// A row of a listing: its key, the first [`LISTED_BYTES`](idempotent_runtime::store::LISTED_BYTES) bytes of its record, and its remaining
/// microseconds, which are not positive if it has expired.
pub(crate) type ListedRow = (Vec<u8>, Vec<u8>, i64);
