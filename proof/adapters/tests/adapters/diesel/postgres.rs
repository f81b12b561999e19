use diesel::sql_types::Text;
use diesel::{QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection as Connection, RunQueryDsl as _};

use self::session::{LibraryError, Session, Tx, commit, driver, pay, rollback, send_in};
use self::session::{POOL_ROUND_TRIPS, Pool, open_pool, send_in as send_begun};

mod bb8;
#[path = "../begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "session.rs"]
#[allow(clippy::duplicate_mod)]
mod session;
#[path = "../suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;

const PARAMETERS: &str = "";

#[derive(QueryableByName)]
struct Shown {
    #[diesel(sql_type = Text)]
    lock_timeout: String,
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    let shown: Shown = sql_query(statement).get_result(&mut **tx).await.unwrap();
    shown.lock_timeout
}
