//! Examines how MySQL or MariaDB is set up.

use idempotent_runtime::store::Level;
use sqlx::{Executor, MySql, MySqlConnection, Row, query, query_as};

use crate::database::doctor::{Check, Examine, MANY};

impl Examine for MySql {
    async fn backlog_and_clock(connection: &mut MySqlConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut MySqlConnection) -> sqlx::Result<Vec<Check>> {
        let row = connection.fetch_one(query(EXAMINE)).await?;
        // `None` if the user may not see it.
        let engine: Option<String> = row.try_get("engine")?;
        let key: Option<String> = row.try_get("key_type")?;
        Ok(vec![
            Check {
                fails: engine.is_some_and(|engine| !engine.eq_ignore_ascii_case("innodb")),
                level: Level::Problem,
                found: "the engine of the table is not InnoDB, so a crash may lose or damage records",
                advice: "`ALTER TABLE idempotence ENGINE = InnoDB`",
            },
            Check {
                fails: key.is_some_and(|key| !key.eq_ignore_ascii_case("varbinary")),
                level: Level::Problem,
                found: "keys are text in the database, so its collation may treat different keys as equal",
                advice: "``ALTER TABLE idempotence MODIFY `key` VARBINARY(512) NOT NULL``",
            },
            Check {
                fails: row.try_get::<i64, _>("read_only")? == 1,
                level: Level::Problem,
                found: "this server is read-only for users without special privileges",
                advice: "connect to the primary",
            },
            Check {
                fails: row.try_get::<i64, _>("autocommit")? == 0,
                level: Level::Problem,
                found: "autocommit is off, so records are lost with their connection",
                advice: "set `autocommit` to 1 for the sessions of the pool",
            },
            Check {
                fails: row.try_get::<i64, _>("flushed")? != 1,
                level: Level::Warning,
                found: "innodb_flush_log_at_trx_commit is not 1, so a crash may lose the latest records",
                advice: "set it to 1",
            },
            Check {
                fails: row.try_get::<i64, _>("lock_wait")? > 5,
                level: Level::Note,
                found: "innodb_lock_wait_timeout is long: while a row is locked, cancelled operations continue to wait in the server",
                advice: "set it to about a second for the sessions of the pool",
            },
        ])
    }
}

const BACKLOG_AND_CLOCK: &str = "
SELECT (SELECT COUNT(*) FROM (
    SELECT 1 FROM idempotence WHERE expires_at <= UTC_TIMESTAMP(6) LIMIT ?
) AS expired), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const EXAMINE: &str = "
SELECT CAST((SELECT engine FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'idempotence') AS CHAR) AS engine,
CAST((SELECT data_type FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'idempotence' AND column_name = 'key') AS CHAR) AS key_type,
CAST(@@read_only AS SIGNED) AS read_only, CAST(@@autocommit AS SIGNED) AS autocommit,
CAST(@@innodb_flush_log_at_trx_commit AS SIGNED) AS flushed,
CAST(@@innodb_lock_wait_timeout AS SIGNED) AS lock_wait";
