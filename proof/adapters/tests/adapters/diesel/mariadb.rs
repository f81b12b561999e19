use diesel_async::AsyncMysqlConnection as Connection;

use self::session::{LibraryError, Session, commit, driver, pay, rollback, send_in};
use self::session::{POOL_ROUND_TRIPS, Pool, open_pool, send_in as send_begun};

#[path = "../begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "session.rs"]
#[allow(clippy::duplicate_mod)]
mod session;
#[path = "../suite_on_servers.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::MySql;

/// Else `mysql_async` leaves the port of the test for the socket of the server.
const PARAMETERS: &str = "?prefer_socket=false";
