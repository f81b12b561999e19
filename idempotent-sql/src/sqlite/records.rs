//! The statements of the store in SQLite.
//!
//! Each statement that writes is its own transaction. It takes the write lock of the file before it reads, so nothing
//! changes in between. No statement returns rows that it wrote, because the client returns such rows before they are
//! committed, and would not report a failed commit.

use bytes::Bytes;
use idempotent_runtime::port::sql::{CLAIM, sqlite_end, sqlite_now};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, query_as};

use crate::database::records::{self, FoundKey, ListedRow, Records, Statements};
use crate::database::run::Execute as _;
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, Key, Limit, Micros, New};

const REPLACE: &str = concat!(
    "UPDATE idempotence SET value = ?3, expires_at = ",
    sqlite_end!("?4"),
    " WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const EXCHANGE: &str = concat!(
    "UPDATE idempotence SET value = ?3 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const RENEW: &str = concat!(
    "UPDATE idempotence SET expires_at = ",
    sqlite_end!("?3"),
    " WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const REMOVE: &str = concat!(
    "DELETE FROM idempotence WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const GET: &str = concat!(
    "SELECT substr(value, 1, ?2), expires_at - ",
    sqlite_now!(),
    " FROM idempotence WHERE key = ?1 AND expires_at > ",
    sqlite_now!()
);
const PURGE: &str = concat!(
    "DELETE FROM idempotence WHERE key IN (SELECT key FROM idempotence WHERE expires_at <= ",
    sqlite_now!(),
    " ORDER BY expires_at LIMIT ?1)"
);
const LIST: &str = concat!(
    "SELECT CAST(key AS BLOB), substr(value, 1, 512), expires_at - ",
    sqlite_now!(),
    " FROM idempotence WHERE key >= CAST(?1 AS TEXT) AND typeof(key) = 'text' ORDER BY key LIMIT ?2"
);

impl Records for Sqlite {
    const ANSWERS_LATE: bool = false;
    const MAX_SENDS: u32 = 20;
    const CLAIMS_ANY: bool = true;
    const STATEMENTS: &'static Statements = &Statements {
        claim: FixedStatement::new(CLAIM, &[Key, New, Micros]),
        replace: FixedStatement::new(REPLACE, &[Key, Expected, New, Micros]),
        exchange: FixedStatement::new(EXCHANGE, &[Key, Expected, New]),
        renew: FixedStatement::new(RENEW, &[Key, Expected, Micros]),
        remove: FixedStatement::new(REMOVE, &[Key, Expected]),
        get: FixedStatement::new(GET, &[Key, Limit]),
        purge: FixedStatement::new(PURGE, &[Limit]),
    };

    async fn claim_all(
        connection: &mut SqliteConnection,
        claims: &[(&str, &Bytes)],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let mut claim = QueryBuilder::new("WITH wanted (key, value) AS (");
        claim.push_values(claims, |mut row, (key, value)| {
            row.push_bind(*key).push_bind(&***value);
        });
        claim.push(concat!(
            ") INSERT INTO idempotence (key, value, expires_at) SELECT key, value, ",
            sqlite_end!(""),
        ));
        claim.push_bind(micros).push(concat!(
            " FROM wanted WHERE NOT EXISTS (
                SELECT 1 FROM wanted AS one JOIN idempotence AS stored ON stored.key = one.key
                WHERE stored.value <> one.value AND stored.expires_at > ",
            sqlite_now!(),
            ") ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = CASE
                WHEN idempotence.expires_at <= ",
            sqlite_now!(),
            " THEN excluded.expires_at ELSE idempotence.expires_at END",
        ));
        let claimed = Self::execute(connection, claim).await?;
        Ok(claimed > 0)
    }

    /// The statement is followed by reads, because rows that it returns are not committed yet.
    async fn claim_any(
        connection: &mut SqliteConnection,
        claims: &[(&str, &Bytes)],
        micros: i64,
        most: i32,
    ) -> sqlx::Result<Vec<FoundKey>> {
        let mut claim = QueryBuilder::new("WITH wanted (place, key, value) AS (");
        claim.push_values((0_i64..).zip(claims), |mut row, (place, (key, value))| {
            row.push_bind(place).push_bind(*key).push_bind(&***value);
        });
        claim.push(concat!(
            "), taken AS (
                SELECT wanted.place, stored.value = wanted.value AS is_own
                FROM wanted JOIN idempotence AS stored ON stored.key = wanted.key
                WHERE stored.expires_at > ",
            sqlite_now!(),
            ") INSERT INTO idempotence (key, value, expires_at) SELECT key, value, ",
            sqlite_end!(""),
        ));
        claim.push_bind(micros).push(
            " FROM wanted WHERE place NOT IN (SELECT place FROM taken)
                AND NOT EXISTS (SELECT 1 FROM taken WHERE is_own)
            ORDER BY place LIMIT 1
            ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at",
        );
        Self::execute(connection, claim).await?;
        let mut found = Vec::new();
        for (at, (key, value)) in claims.iter().enumerate() {
            if let Some((stored, _)) = records::get::<Self>(connection, key, most).await? {
                found.push((at, Some(stored).filter(|stored| stored != *value)));
            }
        }
        Ok(found)
    }

    async fn list(
        connection: &mut SqliteConnection,
        first: &[u8],
        most: i64,
    ) -> sqlx::Result<Vec<ListedRow>> {
        let list = query_as(LIST).bind(first).bind(most);
        list.fetch_all(connection).await
    }
}
