//! Records in a table of PostgreSQL, MySQL, MariaDB or SQLite.

mod attempts;
mod change;
mod connect;
mod doctor;
mod fencing;
mod listing;
mod purge;
mod several;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::port::sql::{Longest, Queues, Unsent, micros};
use idempotent_runtime::store::{
    Claim, ClaimAll, ClaimAny, Count, Cursor, Durability, Entry, FencedClaim, Finding, Page, Store,
    StoreError, Swap, claim_fenced_in_steps,
};
use sqlx::Pool;

use self::attempts::Attempts;
use self::purge::Purging;
use self::several::LateClaims;
use super::batching::{Batching, most_bytes};
use super::database::Database;
use super::database::batch::Change;
use super::database::checkout::Checkout;
use super::database::records;
use super::migrate;

/// Stores records in PostgreSQL (11 or newer), in the table `idempotence`.
///
/// A duplicate writes and locks nothing.
#[cfg(feature = "postgres")]
pub type PostgresStore = SqlStore<sqlx::Postgres>;

/// Stores records in MySQL (8.0 or newer) or MariaDB (10.6 or newer), in the table `idempotence`.
///
/// A login with a password needs TLS on MySQL, or the feature `mysql-rsa` of sqlx.
#[cfg(feature = "mysql")]
pub type MySqlStore = SqlStore<sqlx::MySql>;

/// Stores records in a file of SQLite, in the table `idempotence`: for the processes of one machine.
///
/// The file must be on a disk of that machine, not on a network. An acknowledged record survives the death of a process
/// and a loss of power.
#[cfg(feature = "sqlite")]
pub type SqliteStore = SqlStore<sqlx::Sqlite>;

/// Stores records in a table of a database: see `PostgresStore`, `MySqlStore` and `SqliteStore`.
///
/// A record is a row, committed before it is acknowledged. The database's clock alone decides what has expired, so the clocks
/// and time zones of clients do not matter. The sessions of the pool may have any isolation level. An operation is sent up to
/// three times, on SQLite up to twenty times: after a refusal because of a concurrent transaction (a serialization failure, a
/// deadlock, a busy file), and after a broken connection. After a lost race it is sent up to a hundred times.
///
/// An operation that changes or reads a record is one statement and one round trip. If it finds another call's record, a second
/// statement reads that record. Several keys are claimed by one statement. On MySQL a claim that replaces an expired record is three statements. With a fence a claim is
/// one on PostgreSQL and SQLite, and on MySQL three to seven. Changes that wait for the database go together in one transaction: see
/// [`batch`](Self::batch). Counting an attempt is one statement on PostgreSQL and SQLite, and two on MySQL: for each key the
/// calls of a process take turns, and reuse one connection while the pool has others that are free. The first statement of each
/// kind on a connection costs one more round trip, which prepares it.
/// Expired rows are stored until another claim needs their key or until they are purged. A store that is used purges about every ten
/// minutes, in the background: see [`purge_every`](Self::purge_every) and [`purge`](Self::purge).
/// [`connect`](Self::connect) and [`migrate`](Self::migrate) make the tables; [`sql::schema`](crate::sql::schema) has the
/// statements for other tools. After that the user of the database needs `SELECT`, `INSERT`, `UPDATE` and `DELETE` on
/// `idempotence`, and for `connect` and `migrate` also `SELECT` on `idempotence_version`.
///
/// Features of sqlx choose its TLS. A clone shares the pool.
pub struct SqlStore<DB: Database> {
    pool: Pool<DB>,
    /// The calls that count, by key. A key is one row, so one connection at a time is enough.
    counting: Arc<Queues<Checkout<DB>>>,
    late: Arc<LateClaims>,
    longest: Longest,
    /// `None` if each change is sent by itself.
    batching: Option<Arc<Batching<DB>>>,
    /// `None` if the store does not purge by itself.
    purging: Option<Arc<Purging<DB>>>,
}

impl<DB: Database> SqlStore<DB> {
    /// Makes a store on an existing pool, for example the pool of the business tables.
    ///
    /// This sends no statement: call [`migrate`](Self::migrate) if the tables may be missing. Set the following on your pool, as [`connect`](Self::connect) does:
    ///
    /// * `test_before_acquire(false)`: the test adds a round trip to every operation, and the store does not need it;
    /// * on PostgreSQL `lock_timeout`, on MySQL `innodb_lock_wait_timeout` and `lock_wait_timeout` of about a second for the
    ///   sessions of the pool: while a row is locked, cancelled operations continue to wait in the server. A cancelled claim of several
    ///   keys keeps its connection of the pool for up to five seconds, or ten if the server is silent;
    /// * on SQLite one connection (`max_connections(1)`): writers to a file take turns, and the queue of the pool is fairer than polling the
    ///   file; also write-ahead logging, `synchronous(Full)`, and a `busy_timeout` of some tens of milliseconds, far less than the [deadline](idempotent_runtime::Builder::deadline).
    ///
    /// # Behind `PgBouncer`
    ///
    /// Set `ignore_startup_parameters = extra_float_digits`. The modes of its pool:
    ///
    /// * `session`, in every version. Each connection keeps its session, so `default_pool_size` is at least the sum of the
    ///   `max_connections` of all your pools: a connection beyond it waits for `query_wait_timeout` (120 s), and fails.
    /// * `transaction`, from 1.21 on, with `max_prepared_statements` above 0 (the default is 0, from 1.24 on 200) and sqlx's statement
    ///   cache on: `statement-cache-capacity=0` costs one more round trip for each statement, and closes none. A `SET` of one client
    ///   stays in a session that all share, and [`connect`](Self::connect) sets a `lock_timeout`: so make the pool yourself, without
    ///   `after_connect`, and set it by `ALTER ROLE … SET lock_timeout = '1s'`. The statement of a batch sets its own.
    ///
    /// Without `max_prepared_statements` the mode `transaction` may run a prepared statement in a session that does not know it, or
    /// that knows another by its name. No setting of sqlx changes this: it prepares in one request, and executes in the next.
    pub fn new(pool: Pool<DB>) -> Self {
        let purging = Some(Purging::every(purge::PERIOD, &pool));
        let store = Self {
            pool,
            purging,
            counting: Arc::default(),
            late: Arc::default(),
            longest: Longest::default(),
            batching: None,
        };
        store.batch(true)
    }

    /// Connects to the database at `url`, and makes the tables if they are missing:
    ///
    /// * `postgres://user:password@host:5432/database`
    /// * `mysql://user:password@host:3306/database`, or `mariadb://…`
    /// * `sqlite:folder/file`, or `sqlite:/absolute/file`: a missing file is created unless the URL has `?mode=rw`.
    ///   `sqlite::memory:` is a database that ends with the store.
    ///
    /// The parameters after the `?` are `batch=false`, which sends each change by itself (see [`batch`](Self::batch)), `purge=false`,
    /// which leaves expired records to other processes (see [`purge`](Self::purge)), `migrate=false`, which makes no tables, and the
    /// parameters of sqlx. An unknown or unreadable parameter is an error. For a server on another machine use `?sslmode=verify-full` (PostgreSQL) or `?ssl-mode=VERIFY_IDENTITY` (MySQL) and a TLS feature of
    /// sqlx. Otherwise sqlx accepts a session without TLS, or with any certificate. `connect` then logs a warning, and
    /// [the doctor](idempotent_runtime::Idempotency::doctor) reports a problem.
    ///
    /// The pool has up to ten connections, and one for SQLite, because only one connection can write to a file at a time.
    /// Costs one connection, which is then closed, and two round trips. Making the tables costs one more round trip.
    ///
    /// # Errors
    ///
    /// Within five seconds: if the URL is invalid or of another database, if the server cannot be reached or refuses the login,
    /// if the tables are missing and the user may not make them, or if the file of SQLite is read-only and the URL has neither
    /// `mode=ro` nor `immutable`. If the tables are missing, the source of the error contains the statements that make them.
    /// The text never contains the password or the user's name.
    ///
    /// # Panics
    ///
    /// If sqlx was built without a runtime.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let (pool, parameters) = connect::connect(url).await?;
        let store = Self::new(pool).batch(parameters.batch);
        Ok(store.purge(parameters.purge))
    }

    /// Makes the tables that are missing: [`sql::migrate`](crate::sql::migrate()).
    ///
    /// # Errors
    ///
    /// As for [`sql::migrate`](crate::sql::migrate()).
    pub async fn migrate(&self) -> Result<(), StoreError> {
        migrate::migrate(&self.pool).await
    }

    /// Removes the expired records, and returns their number.
    ///
    /// Each statement removes up to a thousand records and commits by itself, so that no call waits long for it. Records that
    /// another call claims at the same time are not removed.
    ///
    /// # Errors
    ///
    /// The first failure. Earlier removals are not undone.
    ///
    /// # Cancellation
    ///
    /// A dropped future may have removed some of the records.
    pub async fn purge_expired(&self) -> Result<u64, StoreError> {
        purge::purge_expired(&self.pool).await
    }

    /// Sets how often this store calls [`purge_expired`](Self::purge_expired) in the background. Default: about every ten minutes.
    ///
    /// The purges begin with the first operation in a tokio runtime, and end with the last clone of the store. A failure is logged, and
    /// the next purge follows after `period`. One process is enough. More processes do no harm: the period varies at random.
    /// Clones that were made before keep their setting.
    #[must_use]
    pub fn purge_every(mut self, period: Duration) -> Self {
        self.purging = Some(Purging::every(period, &self.pool));
        self
    }

    /// Sets whether this store purges in the background. Default: `true`. Use `false` if a job calls
    /// [`purge_expired`](Self::purge_expired), or if another process purges.
    /// Clones that were made before keep their setting.
    #[must_use]
    pub fn purge(mut self, purge: bool) -> Self {
        self.purging = purge.then(|| Purging::every(purge::PERIOD, &self.pool));
        self
    }

    /// Sets whether changes that wait for the database go together in one transaction. Default: `true`.
    ///
    /// While the database answers, new changes gather, and then go together: they share the commit, which is the expensive part
    /// of a change. For each tokio runtime these transactions use one connection of the pool, and a second connection for
    /// renewals. A transaction without an answer in time does not hold up the next, which uses another connection; there are at
    /// most eight for each of the two. A change that is alone is sent at once, so batches add no round trip. Each change keeps its own answer, its
    /// own deadline and its own cancellation. A change that fails, or whose row is locked, is sent again by itself; on PostgreSQL
    /// the other changes may then be sent by themselves, too. While batches follow each other, their connection stays out of the
    /// pool for up to 100 ms, unless the pool has no other. A call whose batch has no connection of the pool before its
    /// deadline gets an error that says so, and its change is not sent.
    ///
    /// * On PostgreSQL a batch is one statement, which skips locked rows and waits at most 100 ms for an uncommitted row. With counts
    ///   among the changes, or in sessions that are `REPEATABLE READ` or `SERIALIZABLE`, it is one READ COMMITTED transaction. If
    ///   the process stops inside of it, the server ends the session after a second, and nothing of it is applied.
    /// * On MySQL and MariaDB a batch is two round trips: its values, in variables of the session (`@idempotence_…`), and then all its
    ///   statements in one request. The transaction is READ UNCOMMITTED, which locks no gaps; every answer is read with a lock, or
    ///   after the commit. Statements that wait for a lock for longer than 100 ms (on MySQL: a second) are given up, and the changes
    ///   are sent by themselves. If the process stops, the server runs the transaction to its end. Use `false` with
    ///   `binlog_format = STATEMENT`, and behind a proxy that does not pass on variables of a session. A server that does not know
    ///   these statements, or a proxy that does not pass on several statements in one request, refuses the first batch: then the
    ///   store logs a warning, and sends each change by itself.
    /// * On SQLite a file accepts as many commits in a second as the disk can sync, for example a thousand, so hundreds of calls share
    ///   a few. Use `false` if processes that share the file may be suspended: a process that is suspended inside of a transaction
    ///   blocks the file.
    ///
    /// Clones that were made before keep their setting.
    #[must_use]
    pub fn batch(mut self, batch: bool) -> Self {
        let batching = || Arc::new(Batching::new(&self.pool, &self.longest));
        self.batching = batch.then(batching);
        self
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
            late: Arc::clone(&self.late),
            longest: self.longest.clone(),
            batching: self.batching.clone(),
            purging: self.purging.clone(),
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
        let claim = Change::Claim {
            value: value.clone(),
            micros: micros(ttl),
        };
        let mut unsent = Unsent::claim(value);
        let found = self.change_noting(key, claim, &mut unsent).await;
        unsent.end();
        found?.into_claim()
    }

    fn notes_unsent(&self) -> bool {
        true
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        if !DB::HAS_STATEMENT {
            return claim_fenced_in_steps(self, key, fence_key, value, ttl).await;
        }
        self.start_purging();
        let (keys, most) = ([key, fence_key], most_bytes(&self.longest));
        fencing::claim(&self.pool, keys, value, ttl, most).await
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        self.start_purging();
        let most = most_bytes(&self.longest);
        several::claim_all(&self.pool, &self.late, claims, ttl, most).await
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        let most = most_bytes(&self.longest);
        several::claim_any(&self.pool, &self.late, claims, ttl, most).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let (expected, micros) = (expected.clone(), micros(ttl));
        let replace = if *value == expected {
            Change::Renew { expected, micros }
        } else {
            let value = value.clone();
            Change::Replace {
                expected,
                value,
                micros,
            }
        };
        self.change(key, replace).await?.into_swap()
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.late.wait_for(expected).await;
        let expected = expected.clone();
        let found = self.change(key, Change::Remove { expected }).await?;
        found.into_swap()
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let mut attempts = Attempts::new(&self.pool);
        loop {
            let mut connection = attempts.acquire().await?;
            let stored = records::get::<DB>(&mut connection, key, most_bytes(&self.longest)).await;
            if let Some(stored) = attempts.resolve(connection, stored.map(Some))? {
                return Ok(stored.map(|(value, remaining)| Entry {
                    value,
                    ttl: Some(Duration::from_micros(remaining.unsigned_abs())),
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
        let (expected, value) = (expected.clone(), value.clone());
        let found = self
            .change(key, Change::Exchange { expected, value })
            .await?;
        found.into_swap()
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let micros = micros(window);
        let found = self.change(key, Change::Count { attempt, micros }).await?;
        found.into_count()
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        listing::list(&self.pool, prefix, after, most)
            .await
            .map(Some)
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
