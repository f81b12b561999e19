//! What a lock sends, in the words of each database.
//!
//! Time is the database's, as it was when the statement began, so a statement that waited for another one
//! sees a time that is too early rather than too late. A release keeps the owner, so that a second one finds
//! what the first did; the lock is free because its lease is over.

use std::future::Future;

/// The statements of a lock. Each commits by itself, and may be sent twice.
pub trait Locks: sqlx::Database {
    /// Takes what is free, or is this owner's; the fence, unless another owner has the lock.
    fn take_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// Who has the lock: the fence, and the microseconds until its lease ends.
    fn lock_holder(
        connection: &mut Self::Connection,
        name: &str,
    ) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Makes the lease end no earlier than in `micros`; whether it was this owner's and is not over.
    fn renew_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Ends the lease; whether it was this owner's.
    fn release_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;
}
