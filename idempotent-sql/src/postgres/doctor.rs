//! Examines how PostgreSQL is set up.

use idempotent_runtime::store::Level;
use sqlx::{Executor, PgConnection, Postgres, Row, query_as};

use crate::database::doctor::{Check, Examine, MANY};

impl Examine for Postgres {
    async fn backlog_and_clock(connection: &mut PgConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut PgConnection) -> sqlx::Result<Vec<Check>> {
        let row = connection.fetch_one(EXAMINE).await?;
        Ok(vec![
            Check {
                fails: row.try_get("standby")?,
                level: Level::Problem,
                found: "this server is a standby, which accepts no writes",
                advice: "connect to the primary",
            },
            Check {
                fails: row.try_get("read_only")?,
                level: Level::Problem,
                found: "transactions are read-only by default",
                advice: "set `default_transaction_read_only` to off for the user of the store",
            },
            Check {
                fails: !row.try_get::<bool, _>("synchronous_commit")?,
                level: Level::Warning,
                found: "synchronous_commit is off, so a crash may lose the latest records",
                advice: "set it to on for the user of the store",
            },
            Check {
                fails: !row.try_get::<bool, _>("fsync")?,
                level: Level::Warning,
                found: "fsync is off, so a crash may lose or damage all data",
                advice: "set it to on",
            },
            Check {
                fails: !row.try_get::<bool, _>("logged")?,
                level: Level::Warning,
                found: "the table is not logged, so a crash empties it",
                advice: "`ALTER TABLE idempotence SET LOGGED`",
            },
            Check {
                fails: row.try_get("asynchronous")?,
                level: Level::Note,
                found: "a standby replicates asynchronously, so a fail-over to it may lose the latest records",
                advice: "name the standby in `synchronous_standby_names` if records must survive a fail-over",
            },
            Check {
                fails: row.try_get("patient")?,
                level: Level::Note,
                found: "lock_timeout is not set: while a row is locked, cancelled operations continue to wait in the server",
                advice: "set it to about a second for the sessions of the pool",
            },
        ])
    }
}

const BACKLOG_AND_CLOCK: &str = "
SELECT (SELECT count(*) FROM (
    SELECT FROM idempotence WHERE expires_at <= statement_timestamp() LIMIT $1
) AS expired), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const EXAMINE: &str = "
SELECT pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only')::boolean AS read_only,
    current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
    current_setting('fsync')::boolean AS fsync,
    (SELECT relpersistence = 'p' FROM pg_class WHERE oid = 'idempotence'::regclass) AS logged,
    current_setting('synchronous_standby_names') = ''
        AND EXISTS (SELECT FROM pg_stat_replication) AS asynchronous,
    current_setting('lock_timeout') = '0' AS patient";
