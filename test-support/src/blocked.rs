//! Statements that wait for a lock of another session, as the database shows them.

use std::time::Duration;

use idempotent_sql::sql::sqlx::{self, MySql, Pool, Postgres, Sqlite};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::databases::Kind;

/// How long a test waits for statements to wait, also on a slow machine.
const MAX_WAIT: Duration = Duration::from_mins(2);

pub trait Blocked: Kind {
    /// Returns once this many statements of the database wait for a lock.
    fn blocked(pool: &Pool<Self>, most: i64) -> impl Future<Output = ()> + Send;
}

impl Blocked for Postgres {
    async fn blocked(pool: &Pool<Self>, most: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async { while number(pool, waiting).await < most {} };
        timeout(MAX_WAIT, waiting).await.unwrap();
    }
}

impl Blocked for MySql {
    async fn blocked(pool: &Pool<Self>, most: i64) {
        /// The server refreshes its answer only after 100 ms without a query.
        static TURN: Mutex<()> = Mutex::const_new(());

        let waiting = "SELECT count(*) FROM information_schema.innodb_trx \
                       JOIN information_schema.processlist ON id = trx_mysql_thread_id \
                       WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()";
        let waiting = async {
            loop {
                let _turn = TURN.lock().await;
                tokio::time::sleep(Duration::from_millis(120)).await;
                if number(pool, waiting).await >= most {
                    break;
                }
            }
        };
        timeout(MAX_WAIT, waiting).await.unwrap();
    }
}

impl Blocked for Sqlite {
    /// SQLite does not show who waits for the file. The tests are right whether or not a statement waits.
    async fn blocked(_: &Pool<Self>, _: i64) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn number<DB: Kind>(pool: &Pool<DB>, statement: &'static str) -> i64 {
    let number = sqlx::query_scalar(statement);
    number.fetch_one(pool).await.unwrap()
}
