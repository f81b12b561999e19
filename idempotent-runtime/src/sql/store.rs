//! Records in a table of PostgreSQL, MySQL, MariaDB or SQLite.

mod attempts;
mod connect;
mod doctor;
mod purge;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Pool;

pub use self::purge::PurgeTask;

use self::attempts::Attempts;
use super::checkout::Checkout;
use super::database::Database;
use super::database::time::micros;
use super::migrate;
use crate::record::count;
use crate::store::longest::Longest;
use crate::store::queue::Queues;
use crate::store::{Claim, Count, Durability, Entry, Finding, Store, StoreError, Swap};

/// Keeps records in PostgreSQL, in the table `idempotence`.
///
/// A duplicate writes and locks nothing.
#[cfg(feature = "postgres")]
pub type PostgresStore = SqlStore<sqlx::Postgres>;

/// Keeps records in MySQL (from 8.0 on) or MariaDB (from 10.6 on), in the table `idempotence`.
///
/// Where the server knows the user by a password, MySQL wants TLS, or the feature `mysql-rsa` of sqlx.
#[cfg(feature = "mysql")]
pub type MySqlStore = SqlStore<sqlx::MySql>;

/// Keeps records in a file of SQLite, in the table `idempotence`: for the processes of one machine.
///
/// The file must be on a disk of that machine, not on a network. Neither a process that dies nor a
/// loss of power makes it forget what was acknowledged.
#[cfg(feature = "sqlite")]
pub type SqliteStore = SqlStore<sqlx::Sqlite>;

/// Keeps records in a table of a database: see `PostgresStore`, `MySqlStore` and `SqliteStore`.
///
/// A record is a row, committed before it is acknowledged; what has expired is decided by the database's clock
/// alone, so clocks and time zones of clients do not matter, nor does the isolation level of the pool's sessions.
/// An operation that lost a race, or was refused because of one (a serialization failure, a deadlock), is tried
/// again, three times in all; one whose connection turned out to be broken, too. On SQLite, where those who find the file
/// busy ask again and again, it is twenty times.
///
/// An operation that changes a record, or reads one, is one statement and one round trip; one that finds another's
/// record asks for it by a second one. To count an attempt is one on PostgreSQL, two on MySQL and SQLite, however many count at once:
/// those of a process take turns for a key, and hand on the connection as long as the pool has others. The first statement of its
/// kind on a connection is prepared by one more.
///
/// Rows that have expired stand until another claim needs their key or they are purged, so call
/// [`purge_every`](Self::purge_every) somewhere, or [`purge_expired`](Self::purge_expired) from a job of your own.
///
/// The tables are made by [`connect`](Self::connect) or [`migrate`](Self::migrate), or by those who apply the
/// statements of [`sql::schema`](super::schema). After that the user of the database needs `SELECT`, `INSERT`, `UPDATE` and
/// `DELETE` on `idempotence`, and for `connect` and `migrate` also `SELECT` on `idempotence_version`.
///
/// sqlx needs a runtime: enable the feature `sqlx-tokio` here, or `runtime-tokio` of sqlx, or it panics when it
/// first connects. TLS is chosen by its features, too.
///
/// A clone shares the pool.
pub struct SqlStore<DB: Database> {
    pool: Pool<DB>,
    /// Of those who count: a key is one row, and one connection of the pool is enough for it.
    counting: Arc<Queues<Checkout<DB>>>,
    longest: Longest,
}

impl<DB: Database> SqlStore<DB> {
    /// Makes a store on a pool of the caller's own, such as that of the business tables.
    ///
    /// Nothing is asked of the database: call [`migrate`](Self::migrate) where the tables may be missing.
    ///
    /// What [`connect`](Self::connect) sets, and is better set on a pool of your own, too:
    ///
    /// * `test_before_acquire(false)`: the test is one more round trip of every operation, and the store
    ///   needs none;
    /// * on PostgreSQL `lock_timeout`, on MySQL `innodb_lock_wait_timeout` and `lock_wait_timeout`, a
    ///   second or so for the sessions of the pool: while a row is locked, operations that were given up
    ///   wait on in the server;
    /// * on SQLite one connection (`max_connections(1)`), because those who write to a file take turns, and the queue of the pool is
    ///   fairer than the file, which each asks again and again; a log written ahead, `synchronous(Full)`, and a
    ///   `busy_timeout` of some tens of milliseconds, far less than the [deadline](crate::Builder::deadline).
    pub fn new(pool: Pool<DB>) -> Self {
        Self {
            pool,
            counting: Arc::default(),
            longest: Longest::default(),
        }
    }

    /// Connects to the database at `url`, and makes the tables if they are missing:
    ///
    /// * `postgres://user:password@host:5432/database`
    /// * `mysql://user:password@host:3306/database`, or `mariadb://…`
    /// * `sqlite:folder/file`, or `sqlite:/absolute/file`: made if it is missing, unless `?mode=rw` is said;
    ///   `sqlite::memory:` is one that ends with the store.
    ///
    /// The parameters after the `?` are those of sqlx; one that sqlx does not know, or cannot read, is an error.
    /// To a server on another machine say `?sslmode=verify-full` (PostgreSQL) or `?ssl-mode=VERIFY_IDENTITY` (MySQL), with
    /// a TLS feature of sqlx. Without that sqlx is content with no TLS at all, or with any certificate; then this
    /// says so once, as a warning of tracing, and [the doctor](crate::Idempotency::doctor) as a problem.
    ///
    /// The pool has up to ten connections, and for SQLite one: those who
    /// write to a file have to take turns, and do so best before they come to it.
    ///
    /// Costs a connection that is closed again, and one round trip; a second one where the tables are made.
    ///
    /// # Errors
    ///
    /// Within five seconds, if the URL cannot be read, has a parameter that is not known, or is another database's, the server is not reached or refuses the
    /// credentials, or the tables are missing and may not be made: then the text has the statements that make
    /// them. It never contains the password, nor the name that logs in.
    ///
    /// # Panics
    ///
    /// If sqlx was built without a runtime.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        connect::connect(url).await.map(Self::new)
    }

    /// Makes the tables that are missing: [`sql::migrate`](super::migrate()).
    ///
    /// # Errors
    ///
    /// Those of [`sql::migrate`](super::migrate()).
    pub async fn migrate(&self) -> Result<(), StoreError> {
        migrate::migrate(&self.pool).await
    }

    /// Removes the records that have expired, and returns how many they were.
    ///
    /// By a thousand in a statement, each committed by itself, so that nobody waits for it for long; records
    /// that somebody claims anew at the same time are left alone.
    ///
    /// # Errors
    ///
    /// The first failure; what was removed until then is.
    ///
    /// # Cancellation
    ///
    /// A dropped future has removed some of them.
    pub async fn purge_expired(&self) -> Result<u64, StoreError> {
        purge::purge_expired(&self.pool).await
    }

    /// Calls [`purge_expired`](Self::purge_expired) in the background, about every `period`, until what this
    /// returns is dropped.
    ///
    /// A failure is logged, and the next time it is tried again. One process that does it is enough, and several
    /// do no harm; their times are spread by chance.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn purge_every(&self, period: Duration) -> PurgeTask {
        PurgeTask::start(self.pool.clone(), period)
    }

    /// How many bytes of a record are read: `substring` counts up to here.
    fn max_bytes(&self) -> i32 {
        let most = self.longest.to_read();
        most.map_or(i32::MAX, |most| i32::try_from(most).unwrap_or(i32::MAX))
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<DB> {
        &self.pool
    }
}

impl<DB: Database> Clone for SqlStore<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            counting: Arc::clone(&self.counting),
            longest: self.longest.clone(),
        }
    }
}

impl<DB: Database> fmt::Debug for SqlStore<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore")
            .field("database", &DB::NAME)
            .field("connections", &self.pool.size())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<DB: Database> Store for SqlStore<DB> {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let claim =
                claim::<DB>(&mut connection, key, value, micros(ttl), self.max_bytes()).await;
            match attempts.resolve(connection, claim)? {
                // Its own, from a try whose reply was lost.
                Some(Claim::Taken(standing)) if standing == value => return Ok(Claim::Claimed),
                Some(claim) => return Ok(claim),
                None => {}
            }
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let micros = micros(ttl);
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let replaced = if value == expected {
                DB::renew(&mut connection, key, expected, micros).await
            } else {
                DB::replace(&mut connection, key, expected, value, micros).await
            };
            let swap = swap::<DB>(&mut connection, key, expected, replaced, self.max_bytes()).await;
            match attempts.resolve(connection, swap)? {
                Some(Swap::Other(standing)) if standing == value => return Ok(Swap::Done),
                Some(swap) => return Ok(swap),
                None => {}
            }
        }
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let removed = DB::remove(&mut connection, key, expected).await;
            let swap = swap::<DB>(&mut connection, key, expected, removed, self.max_bytes()).await;
            if let Some(swap) = attempts.resolve(connection, swap)? {
                return Ok(swap);
            }
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let standing = DB::get(&mut connection, key, self.max_bytes()).await;
            if let Some(standing) = attempts.resolve(connection, standing.map(Some))? {
                return Ok(standing.map(|(value, left)| Entry {
                    value,
                    ttl: Some(Duration::from_micros(left.unsigned_abs())),
                }));
            }
        }
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let exchanged = DB::exchange(&mut connection, key, expected, value).await;
            let swap =
                swap::<DB>(&mut connection, key, expected, exchanged, self.max_bytes()).await;
            match attempts.resolve(connection, swap)? {
                Some(Swap::Other(standing)) if standing == value => return Ok(Swap::Done),
                Some(swap) => return Ok(swap),
                None => {}
            }
        }
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let (first, id) = (count::first(attempt), count::id(attempt));
        let mut turn = self.counting.turn(key.to_owned()).await;
        let mut attempts = Attempts::with_connection(&self.pool, turn.take());
        loop {
            let mut connection = attempts.acquire().await?;
            let counted = DB::count(&mut connection, key, &first, &id, micros(window)).await;
            let counted = counted.map(|standing| {
                let (standing, remaining) = standing?;
                Some((count::number(&standing, attempt).transpose()?, remaining))
            });
            if let Some((number, remaining)) = attempts.resolve(connection, counted)? {
                turn.leave(attempts.into_connection());
                return Ok(Count {
                    attempt: number?,
                    remaining: Duration::from_micros(remaining.unsigned_abs()),
                });
            }
        }
    }

    fn durability(&self) -> Durability {
        Durability::Sql
    }

    async fn examine(&self, _key: &str, deadline: Duration) -> Vec<Finding> {
        doctor::examine(&self.pool, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        self.longest.allow(bytes);
    }
}

/// Nothing: what was in the way is gone, ask again.
async fn claim<DB: Database>(
    connection: &mut DB::Connection,
    key: &str,
    value: &[u8],
    micros: i64,
    most: i32,
) -> sqlx::Result<Option<Claim>> {
    if DB::claim(connection, key, value, micros).await? {
        return Ok(Some(Claim::Claimed));
    }
    let standing = DB::get(connection, key, most).await?;
    Ok(standing.map(|(value, _)| Claim::Taken(value)))
}

/// Nothing: the record was not as expected when it was compared, and is when it is looked at. Ask again.
async fn swap<DB: Database>(
    connection: &mut DB::Connection,
    key: &str,
    expected: &Bytes,
    done: sqlx::Result<bool>,
    most: i32,
) -> sqlx::Result<Option<Swap>> {
    if done? {
        return Ok(Some(Swap::Done));
    }
    Ok(match DB::get(connection, key, most).await? {
        None => Some(Swap::Absent),
        Some((standing, _)) if standing == expected => None,
        Some((standing, _)) => Some(Swap::Other(standing)),
    })
}
