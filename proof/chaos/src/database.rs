//! The database of a run: its records, and its faults. All functions block, in a runtime.

use idempotence::sql::sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, Result, Row as _, raw_sql,
};
use tokio::runtime::Handle;

use crate::stored::Stored;

/// The longest time to live of a key, with time for its lease, in microseconds.
const LONGEST: i64 = 2 * 3600 * 1_000_000;

/// Adds the records of the database. Reads them without the crate.
pub(crate) fn read(url: &str, stored: &mut Stored) -> Result<()> {
    let read = async {
        let mut connection = MySqlConnection::connect(url).await?;
        let rows = connection.fetch_all(raw_sql(
            "SELECT `key`, value, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM idempotence",
        ));
        for row in rows.await? {
            let (key, record): (Vec<u8>, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
            let remaining: i64 = row.try_get(2)?;
            let key = String::from_utf8_lossy(&key).into_owned();
            // Expired rows are stored until a purge.
            if remaining > 0 {
                let expires = remaining <= LONGEST;
                stored.note(key, &String::from_utf8_lossy(&record), remaining, expires);
            }
        }
        connection.close().await
    };
    Handle::current().block_on(read)
}

/// Makes the server close the connections of all its other clients.
pub(crate) fn cut_clients(url: &str) -> Result<()> {
    let cut = async {
        let mut connection = MySqlConnection::connect(url).await?;
        let others = "SELECT id FROM information_schema.processlist \
                      WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        for row in connection.fetch_all(raw_sql(others)).await? {
            let id: u64 = row.try_get_unchecked(0)?;
            // The other session may have ended.
            let kill = raw_sql(AssertSqlSafe(format!("KILL {id}")));
            let _ = connection.execute(kill).await;
        }
        connection.close().await
    };
    Handle::current().block_on(cut)
}

/// Makes the server prepare the statements of all clients again.
pub(crate) fn flush_statements(url: &str) -> Result<()> {
    let flush = async {
        let mut connection = MySqlConnection::connect(url).await?;
        connection.execute(raw_sql("FLUSH TABLES")).await?;
        connection.close().await
    };
    Handle::current().block_on(flush)
}
