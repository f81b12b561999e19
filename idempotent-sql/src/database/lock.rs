//! The statements of a lock.
//!
//! The time is the database's time at the start of the statement. So a statement that waited for another statement sees a time
//! that is too early, never too late. A release does not change the owner, so that a second release has the same outcome. The
//! lock is free because its lease has expired.

use std::future::Future;

use super::run::Execute;
use super::statement::{FixedStatement, Parameters};

/// The statements of a lock. Each commits by itself, and may be sent twice.
pub trait Locks: Execute {
    /// The statements but the one that takes the lock.
    const LOCK_STATEMENTS: &'static LockStatements;

    /// Takes the lock if it is free or the owner has it. Returns the fence; `None` if another owner has the lock.
    fn take_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;
}

/// The statements on a lock that is taken.
#[derive(Debug)]
pub struct LockStatements {
    /// Reads the fence of the holder, and the microseconds until its lease expires.
    pub(crate) holder: FixedStatement,
    /// Extends the lease, if the owner has the lock and its lease has not expired.
    pub(crate) renew: FixedStatement,
    /// Ends the lease of the owner.
    pub(crate) release: FixedStatement,
}

/// The holder of the lock: its fence, and the microseconds until its lease expires.
pub(crate) async fn holder<DB: Locks>(
    connection: &mut DB::Connection,
    name: &str,
) -> sqlx::Result<Option<(i64, i64)>> {
    let values = Parameters::new(name);
    DB::read_numbers(connection, &DB::LOCK_STATEMENTS.holder, values).await
}

/// Extends the lease to at least `micros` from now, if the owner has the lock and its lease has not expired. Returns whether the
/// owner still has the lock.
pub(crate) async fn renew<DB: Locks>(
    connection: &mut DB::Connection,
    name: &str,
    owner: &[u8],
    micros: i64,
) -> sqlx::Result<bool> {
    let values = Parameters::new(name).expected(owner).micros(micros);
    Ok(DB::change(connection, &DB::LOCK_STATEMENTS.renew, values).await? > 0)
}

/// Ends the lease. Returns whether the owner had the lock.
pub(crate) async fn release<DB: Locks>(
    connection: &mut DB::Connection,
    name: &str,
    owner: &[u8],
) -> sqlx::Result<bool> {
    let values = Parameters::new(name).expected(owner);
    Ok(DB::change(connection, &DB::LOCK_STATEMENTS.release, values).await? > 0)
}
