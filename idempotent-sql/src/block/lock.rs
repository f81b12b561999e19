//! A lock in a table: one holder at a time, and a fencing token that orders the holders.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use idempotent_driver::port::failure;
use idempotent_runtime::port::sql::random_bits;
use sqlx::Pool;
use sqlx::error::DatabaseError;
use tokio::time::Instant;

use super::explained::explained;
use crate::database::checkout::Checkout;
use crate::database::{Database, lock};

#[cfg(all(
    test,
    unix,
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
mod tests;
pub(crate) mod waiting;

/// Named locks in the table `idempotence_lock`, for work that only one process may do at a time.
///
/// ```
/// # use std::time::Duration;
/// # use idempotence::sql::{self, sqlx};
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> sqlx::Result<()> {
/// let lock = sql::Lock::new(pool.clone());
/// let Some(held) = lock.take("trade:42", Duration::from_secs(30)).await? else {
///     return Ok(()); // another process has the lock
/// };
/// let written = sqlx::query("UPDATE trade SET state = $1, fence = $2 WHERE id = $3 AND fence < $2")
///     .bind("settled")
///     .bind(held.fence())
///     .bind(42)
///     .execute(&pool)
///     .await?;
/// held.release().await?;
/// # assert_eq!(written.rows_affected(), 1);
/// # Ok(()) }
/// ```
///
/// # What it promises
///
/// Until the lease expires, no other caller gets the lock, even if the holder dies. This holds as long as the clocks of
/// the holder and the database run at the same rate. Expiry is decided by the database's clock, so the time of day on the
/// callers' machines does not matter.
///
/// The lock cannot stop a holder that continues after its lease, for example after a long pause or with a statement that
/// arrives late. The [fence](LockGuard::fence) covers this case: each holder of a name has a larger fence than all holders
/// before it. The row that the work changes stores the fence of its last writer, and a late statement finds a larger
/// fence there, as in the example. Use `fence <= $2` if a holder writes the row more than once.
///
/// A fence orders writes. It does not make them happen once: a holder may die after its work and before its release, and
/// the next holder does the work again. For "once" use a [`transition`](crate::sql::transition) or the dedup row, which commit
/// with the work.
///
/// # A separate connection
///
/// Each operation is one statement that commits by itself (MySQL: unless `autocommit` is off). It runs on a connection of the
/// pool and is never part of your transaction: other callers would not see a lock taken in a transaction before the commit, and
/// a rollback would remove it. So take the lock before the transaction begins and release it after the commit. The pool needs
/// one more connection than there are open transactions. A pool that tests its connections, as pools do by default, adds one
/// round trip to each operation. SQLite has one writer for the whole file: taking or renewing a lock waits for the end of a
/// transaction that has written, at most for the `busy_timeout`.
///
/// # The attribute as a lock
///
/// A function with the attribute and `release = true` on a SQL store is locked in the same way: its lease is renewed, and
/// its body is stopped when the lease is lost. It has no fence. Use `Lock` for work that is not one function, or if you
/// need the fence.
#[doc(alias("分布式锁", "redlock", "watchdog"))]
pub struct Lock<DB: Database> {
    pool: Pool<DB>,
}

impl<DB: Database> Lock<DB> {
    /// Uses the table `idempotence_lock` of this database, which [`migrate`](crate::sql::migrate) makes. No round trip.
    pub fn new(pool: Pool<DB>) -> Self {
        Self { pool }
    }

    /// Takes the lock `name` for the time `lease`. Returns `None` if another holder has it. One round trip.
    ///
    /// This does not wait for the holder; [`take_within`](Self::take_within) does. Names are compared byte by byte: `A`,
    /// `a` and `a` followed by a space are three locks. Their rows are never removed, so that the fences grow: use a
    /// limited set of names, or remove the rows of names that are never used again.
    ///
    /// A statement is sent again if the database refused it because of a conflict, or if its reply was lost. The
    /// second attempt finds the lock that the first attempt took.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is longer than 512 bytes or contains NUL, if the lease is shorter than a millisecond or
    /// longer than 100 years, or if the lease expired before the database had answered. Otherwise the database's error. The
    /// lock may be taken in spite of the error, until the lease expires.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lock may be taken until the lease expires.
    pub async fn take(&self, name: &str, lease: Duration) -> sqlx::Result<Option<LockGuard<DB>>> {
        let owner = new_owner(name)?;
        self.take_as(name, owner, lease).await
    }

    /// Takes the lock for `owner`. If `owner` has it already, the lease lasts at least for `lease` from now.
    async fn take_as(
        &self,
        name: &str,
        owner: LockOwner,
        lease: Duration,
    ) -> sqlx::Result<Option<LockGuard<DB>>> {
        let (owned_by, micros) = (&owner, micros(lease)?);
        let (sent, fence) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let fence = DB::take_lock(&mut connection, name, owned_by, micros).await?;
                Ok((connection, fence))
            })
        })
        .await?;
        let Some(fence) = fence else {
            return Ok(None);
        };
        let held = LockGuard {
            pool: self.pool.clone(),
            name: name.to_owned(),
            owner,
            fence,
            deadline: sent + lease,
        };
        if held.remaining().is_zero() {
            return Err(lease_expired(lease, sent.elapsed()));
        }
        Ok(Some(held))
    }
}

impl<DB: Database> Clone for Lock<DB> {
    fn clone(&self) -> Self {
        Self::new(self.pool.clone())
    }
}

impl<DB: Database> fmt::Debug for Lock<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

/// A lock that this caller holds until it releases the lock or the lease expires.
///
/// Dropping the guard does not release the lock: no other caller gets it before the lease expires. So after a panic or a
/// dropped future, other callers wait for the end of the lease, because the interrupted work may still run.
#[must_use = "the lock stays taken until its lease expires"]
pub struct LockGuard<DB: Database> {
    pool: Pool<DB>,
    name: String,
    owner: LockOwner,
    fence: i64,
    deadline: Instant,
}

impl<DB: Database> LockGuard<DB> {
    /// The fencing token: larger than the fence of every earlier holder of this name. The first holder has 1.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// When the lease expires unless it is renewed.
    ///
    /// This machine's monotonic clock counts from just before the statement was sent, so the lease does not expire
    /// earlier in the database.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The remaining time of the lease: zero if it has expired. Check it before each step that only a holder may take.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Extends the lease to at least `lease` from now. Returns whether the lock is still held. One round trip.
    ///
    /// `false`: the lease has expired, and another holder may have the lock. Stop the work.
    ///
    /// # Errors
    ///
    /// The database's error. The lease expires no earlier than before. `InvalidArgument` as in [`Lock::take`].
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lease may be renewed or not. [`deadline`](Self::deadline) returns the earlier time.
    pub async fn renew(&mut self, lease: Duration) -> sqlx::Result<bool> {
        let (held, micros) = (&*self, micros(lease)?);
        let (sent, renewed) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let renewed =
                    lock::renew::<DB>(&mut connection, &held.name, &held.owner, micros).await?;
                Ok((connection, renewed))
            })
        })
        .await?;
        if renewed {
            self.deadline = self.deadline.max(sent + lease);
        }
        Ok(renewed && !self.remaining().is_zero())
    }

    /// Releases the lock. Returns `true` if no other holder had taken it. One round trip.
    ///
    /// `false`: the lease expired during the work, and another holder may have worked at the same time. The other
    /// holder's lock stays as it is.
    ///
    /// # Errors
    ///
    /// The database's error. The lock is free now, or becomes free when the lease expires.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lock is free now, or becomes free when the lease expires.
    pub async fn release(self) -> sqlx::Result<bool> {
        let held = &self;
        let (_, released) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let released =
                    lock::release::<DB>(&mut connection, &held.name, &held.owner).await?;
                Ok((connection, released))
            })
        })
        .await?;
        Ok(released)
    }
}

impl<DB: Database> fmt::Debug for LockGuard<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name)
            .field("fence", &self.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// Identifies the holder of a lock. Each call of `take` makes a new owner.
type LockOwner = [u8; 16];

/// Sends an idempotent statement, and sends it again after an error that a resend may resolve. Returns the time of the last
/// send and the answer. `statement` returns the connection that it received.
async fn send<'a, DB: Database, T>(
    pool: &Pool<DB>,
    statement: impl Fn(Checkout<DB>) -> BoxFuture<'a, sqlx::Result<(Checkout<DB>, T)>>,
) -> sqlx::Result<(Instant, T)> {
    let mut attempts = 1;
    loop {
        match send_once(pool, &statement).await {
            Err(error) if attempts < MAX_ATTEMPTS && is_worth_resending(&error) => attempts += 1,
            answer => return answer,
        }
    }
}

async fn send_once<'a, DB: Database, T>(
    pool: &Pool<DB>,
    statement: &impl Fn(Checkout<DB>) -> BoxFuture<'a, sqlx::Result<(Checkout<DB>, T)>>,
) -> sqlx::Result<(Instant, T)> {
    let connection = Checkout::for_statements(pool.acquire().await?);
    let sent = Instant::now();
    let answered = statement(connection).await;
    let (connection, answer) = answered.map_err(|error| explained(error, NO_TABLE))?;
    connection.release();
    Ok((sent, answer))
}

const NO_TABLE: &str = "call `sql::migrate` at every start, which makes the table of locks";
const MAX_ATTEMPTS: u32 = 10;

/// Whether a resend may succeed: the connection broke, or the database refused the statement because of a conflict.
///
/// These errors come at once. An error that comes after a wait, for example for a busy file, is not worth a second wait.
fn is_worth_resending(error: &sqlx::Error) -> bool {
    const CONFLICT: [&str; 2] = ["40001", "40P01"];
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| CONFLICT.contains(&&*code)) || failure::is_broken(error)
}

/// A new owner, for a lock with a valid name.
fn new_owner(name: &str) -> sqlx::Result<LockOwner> {
    if name.len() > 512 || name.contains('\0') {
        let why = "the name of a lock must have at most 512 bytes and no NUL";
        return Err(sqlx::Error::InvalidArgument(why.to_owned()));
    }
    Ok(random_bits().to_be_bytes())
}

fn lease_expired(lease: Duration, took: Duration) -> sqlx::Error {
    sqlx::Error::InvalidArgument(format!(
        "the lock was taken, but its lease of {lease:?} expired before the database answered after {took:.1?}: use a longer lease"
    ))
}

fn micros(lease: Duration) -> sqlx::Result<i64> {
    let allowed = Duration::from_millis(1)..=Duration::from_hours(100 * 365 * 24);
    let micros = i64::try_from(lease.as_micros()).ok();
    micros.filter(|_| allowed.contains(&lease)).ok_or_else(|| {
        let why = "the lease of a lock must be between 1 millisecond and 100 years";
        sqlx::Error::InvalidArgument(why.to_owned())
    })
}
