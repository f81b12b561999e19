//! The statements of a lock.
//!
//! The time is the database's time at the start of the statement. So a statement that waited for another statement sees a time
//! that is too early, never too late. A release does not change the owner, so that a second release has the same outcome. The
//! lock is free because its lease has expired.

use std::future::Future;

/// The statements of a lock. Each commits by itself, and may be sent twice.
pub trait Locks: sqlx::Database {
    /// Takes the lock if it is free or the owner has it. Returns the fence; `None` if another owner has the lock.
    fn take_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// The holder of the lock: its fence, and the microseconds until its lease expires.
    fn lock_holder(
        connection: &mut Self::Connection,
        name: &str,
    ) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Extends the lease to at least `micros` from now, if the owner has the lock and its lease has not expired. Returns
    /// whether the owner still has the lock.
    fn renew_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Ends the lease. Returns whether the owner had the lock.
    fn release_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;
}
