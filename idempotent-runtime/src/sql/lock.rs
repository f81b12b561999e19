//! A lock in a table: one holder at a time, and a number that tells the holders apart.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Pool;
use sqlx::error::DatabaseError;
use tokio::time::Instant;

use super::checkout::Checkout;
use super::database::Database;
use super::retryable;
use crate::world;

#[cfg(all(
    test,
    unix,
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
mod tests;
pub(super) mod waiting;

/// Locks with names in the table `idempotence_lock`, for work that is to be done by one at a time.
///
/// ```
/// # use std::time::Duration;
/// # use idempotent_runtime::sql::{self, sqlx};
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> sqlx::Result<()> {
/// let lock = sql::Lock::new(pool.clone());
/// let Some(held) = lock.take("trade:42", Duration::from_secs(30)).await? else {
///     return Ok(()); // somebody else is at it
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
/// Until its lease ends nobody else gets the lock, whatever becomes of the holder, as long as the clocks of
/// the holder and the database run at the same rate. All takers ask the database's clock, so theirs may be
/// wrong.
///
/// It cannot stop a holder who goes on after the lease: one that was paused, or whose statement was long on
/// its way. That is what the [fence](LockGuard::fence) is for: each holder of a name has a larger one than all
/// before it. The row that the work changes keeps the fence of who changed it last, and the statement of a
/// holder that came too late finds a larger one there, as above. Use `fence <= $2` if a holder writes the row
/// more than once.
///
/// A fence orders writes; it does not make them happen once. A holder may die after its work and before its
/// release, and the next one does the work again. For "once" there are the [`transition`](super::transition)
/// and the dedup row, which commit with the work.
///
/// # A connection of its own
///
/// Each operation is a statement that commits by itself (MySQL: unless somebody turned `autocommit` off),
/// on a connection of the pool, and never part of your transaction: a lock that is taken in a transaction is
/// seen by nobody before the commit, and is gone after a rollback. So take it before the transaction begins
/// and release it after the commit. A pool needs one connection more than there are transactions open; one
/// that tests its connections before it lends them, as pools do by default, makes one more round trip of each
/// operation. SQLite has one writer for the whole file: there a lock that is taken or renewed while a
/// transaction has written waits for its end, until the `busy_timeout`.
///
/// # The other lock
///
/// A function with the attribute and `release = true` on a SQL store is locked in the same way, with a
/// renewed lease, and stopped when it loses it; it has no fence. This one is for what is not one function,
/// and for the fence.
pub struct Lock<DB: Database> {
    pool: Pool<DB>,
}

impl<DB: Database> Lock<DB> {
    /// Locks in the table `idempotence_lock` of this database, which [`migrate`](super::migrate) makes. No
    /// round trip.
    pub fn new(pool: Pool<DB>) -> Self {
        Self { pool }
    }

    /// Takes the lock `name` for as long as `lease`; `None` if somebody has it. One round trip.
    ///
    /// It does not wait for who has it; [`take_within`](Self::take_within) does. Names are compared byte by byte: `A`, `a` and `a` with a blank behind
    /// it are three locks. Their rows stay for good, so that the fences grow: name things that there is a
    /// limit to, or remove rows of names that never come again.
    ///
    /// A statement that the database gave up in favour of another is sent again, and so is one whose reply
    /// was lost: it finds what its first try took.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is longer than 512 bytes or contains NUL, or the lease is shorter than a
    /// millisecond or longer than 100 years; also if the lease was over before the database had answered. Otherwise
    /// what the database says, and then the lock may be taken all the same, until the lease ends.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lock may be taken until the lease ends.
    pub async fn take(&self, name: &str, lease: Duration) -> sqlx::Result<Option<LockGuard<DB>>> {
        let owner = new_owner(name)?;
        self.take_as(name, owner, lease).await
    }

    /// The lock, also if `owner` has it already, and then for no shorter than `lease` from now.
    async fn take_as(
        &self,
        name: &str,
        owner: Owner,
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

/// A lock that was taken, until it is released or its lease ends.
///
/// Dropping it does nothing: nobody else gets the lock before the lease ends. So a body that panics, or whose
/// future is dropped, keeps others away for as long as what it has begun may still be at work.
#[must_use = "the lock stays taken until its lease ends"]
pub struct LockGuard<DB: Database> {
    pool: Pool<DB>,
    name: String,
    owner: Owner,
    fence: i64,
    deadline: Instant,
}

impl<DB: Database> LockGuard<DB> {
    /// A number larger than that of every holder of this name before: the first has 1.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// When the lease ends, if it is not renewed.
    ///
    /// Counted from before the statement was sent, on this machine's monotonic clock, so the database does
    /// not end it earlier.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long the lease goes on; zero when it is over. Look at it before each step that only a holder may
    /// take.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Makes the lease end no earlier than `lease` from now; whether the lock is still held. One round trip.
    ///
    /// `false` means that the lease was over, and that somebody else may have the lock: stop.
    ///
    /// # Errors
    ///
    /// What the database says; the lease then ends no earlier than before. `InvalidArgument` as in
    /// [`Lock::take`].
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lease may be renewed or not; [`deadline`](Self::deadline) is the earlier
    /// one.
    pub async fn renew(&mut self, lease: Duration) -> sqlx::Result<bool> {
        let (held, micros) = (&*self, micros(lease)?);
        let (sent, renewed) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let renewed =
                    DB::renew_lock(&mut connection, &held.name, &held.owner, micros).await?;
                Ok((connection, renewed))
            })
        })
        .await?;
        if renewed {
            self.deadline = self.deadline.max(sent + lease);
        }
        Ok(renewed && !self.remaining().is_zero())
    }

    /// Frees the lock at once; whether nobody else had taken it meanwhile. One round trip.
    ///
    /// `false` means that the lease ended while the work was done, and that another holder may have been at
    /// work beside it. Their lock stays as it is.
    ///
    /// # Errors
    ///
    /// What the database says; the lock is then free when the lease ends, or already.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the lock is free now, or when the lease ends.
    pub async fn release(self) -> sqlx::Result<bool> {
        let held = &self;
        let (_, released) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let released = DB::release_lock(&mut connection, &held.name, &held.owner).await?;
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

/// Who holds a lock: made anew each time one is taken.
type Owner = [u8; 16];

/// Sends a statement that changes no more when it is sent twice, and again if that may help. When it was sent last, and
/// its answer. `statement` hands back the connection that it was lent.
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
    let (connection, answer) = statement(connection).await?;
    connection.release();
    Ok((sent, answer))
}

const MAX_ATTEMPTS: u32 = 10;

/// The connection is gone, and perhaps only the reply; or the database chose another statement in a deadlock or a
/// conflict of transactions. All of these are told at once: what was refused after waiting, such as for a file
/// that is busy, is not waited for again.
fn is_worth_resending(error: &sqlx::Error) -> bool {
    const CONFLICT: [&str; 2] = ["40001", "40P01"];
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| CONFLICT.contains(&&*code)) || retryable::is_broken(error)
}

/// Whoever takes the lock of this name now.
fn new_owner(name: &str) -> sqlx::Result<Owner> {
    if name.len() > 512 || name.contains('\0') {
        let why = "the name of a lock is longer than 512 bytes or contains NUL";
        return Err(sqlx::Error::InvalidArgument(why.to_owned()));
    }
    Ok(world::random_bits().to_be_bytes())
}

fn lease_expired(lease: Duration, took: Duration) -> sqlx::Error {
    sqlx::Error::InvalidArgument(format!(
        "the lock was free, but its lease of {lease:?} was over when the database answered, after {took:.1?}: take it for longer"
    ))
}

fn micros(lease: Duration) -> sqlx::Result<i64> {
    let allowed = Duration::from_millis(1)..=Duration::from_hours(100 * 365 * 24);
    let micros = i64::try_from(lease.as_micros()).ok();
    micros.filter(|_| allowed.contains(&lease)).ok_or_else(|| {
        let why = "the lease of a lock is shorter than a millisecond or longer than 100 years";
        sqlx::Error::InvalidArgument(why.to_owned())
    })
}
