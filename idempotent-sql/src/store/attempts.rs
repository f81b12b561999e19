//! The attempts at one operation: the connection of each attempt, and whether another attempt follows.

#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use idempotent_driver::port::failure;
use idempotent_runtime::port::sql::is_last_poll;
use idempotent_runtime::sql::is_retryable;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Pool};

use crate::database::Database;
use crate::database::checkout::{Checkout, is_exhausted};
use crate::mutation::mutation;

/// A lost race costs little time, unlike a wait for a lock. So many are allowed: a key that many calls claim and release may lose
/// many races in a row. The caller's deadline ends the races of a busy key earlier.
const MOST_RACES: u32 = 100;

pub(super) struct Attempts<'a, DB: Database> {
    pool: &'a Pool<DB>,
    remaining: u32,
    /// How often the record may still change between the two statements of an attempt.
    remaining_races: u32,
    /// Whether an attempt got no answer. If so, no later failure proves that nothing was changed.
    may_be_applied: bool,
    /// The connection of the last attempt, if it has not returned to the pool.
    connection: Option<Checkout<DB>>,
    /// Whether the next operation of the same kind reuses the connection.
    reuses_connection: bool,
}

impl<'a, DB: Database> Attempts<'a, DB> {
    pub(super) fn new(pool: &'a Pool<DB>) -> Self {
        Self {
            pool,
            remaining: DB::MAX_SENDS,
            remaining_races: if mutation!(GivesUpEarly) {
                DB::MAX_SENDS
            } else {
                MOST_RACES
            },
            may_be_applied: false,
            connection: None,
            reuses_connection: false,
        }
    }

    /// Attempts on the connection of the previous operation. The next operation reuses it.
    pub(super) fn with_connection(pool: &'a Pool<DB>, connection: Option<Checkout<DB>>) -> Self {
        Self {
            connection,
            reuses_connection: true,
            ..Self::new(pool)
        }
    }

    /// Notes that the operation was sent in a batch, and was not applied, or has no answer.
    pub(super) fn after_batch(&mut self, may_be_applied: bool) {
        self.may_be_applied |= may_be_applied;
    }

    /// Whether an attempt without an answer may be applied, even after a later attempt.
    pub(super) fn may_be_applied(&self) -> bool {
        self.may_be_applied
    }

    /// The connection for the next operation. `None` if other users of the pool may wait for it: it returns to the pool.
    pub(super) fn into_connection(self) -> Option<Checkout<DB>> {
        self.connection.filter(|_| !is_exhausted(self.pool))
    }

    /// A connection for the next attempt: the idle connection of an earlier attempt, or a connection of the pool.
    pub(super) async fn acquire(&mut self) -> Result<Checkout<DB>, StoreError> {
        loop {
            let mut connection = match self.connection.take() {
                Some(idle) => idle.reuse_for_statements(),
                None => match acquire(self.pool).await {
                    Ok(acquired) => Checkout::for_statements(acquired),
                    Err(error) => return Err(self.fail(error)),
                },
            };
            // If one connection was broken, the idle connections of the pool may also be broken: after a restart of the server
            // all are.
            if !self.may_be_applied || connection.ping().await.is_ok() {
                return Ok(connection);
            }
        }
    }

    /// Evaluates an answer. `None`: send the operation again.
    pub(super) fn resolve<T>(
        &mut self,
        connection: Checkout<DB>,
        answer: sqlx::Result<Option<T>>,
    ) -> Result<Option<T>, StoreError> {
        let error = match answer {
            Ok(Some(answer)) => {
                self.put_down(connection);
                return Ok(Some(answer));
            }
            Ok(None) => {
                self.put_down(connection);
                self.remaining_races -= 1;
                if self.remaining_races > 0 {
                    return Ok(None);
                }
                return Err(self.fail(self.lost_all_races()));
            }
            Err(error) => {
                self.remaining -= 1;
                let again = is_retryable(&error);
                let error = failure::statement_failed(error, failure::place(self.pool));
                let error = StoreError::from(error);
                match error.kind() {
                    StoreErrorKind::Unknown => self.may_be_applied = true,
                    _ => connection.release(),
                }
                if !again && error.kind() != StoreErrorKind::Unknown {
                    return Err(self.fail(error));
                }
                error
            }
        };
        if self.remaining > 0 {
            Ok(None)
        } else {
            Err(self.fail(error))
        }
    }

    fn lost_all_races(&self) -> StoreError {
        StoreError::new(
            StoreErrorKind::NotApplied,
            "the record changed between two statements",
        )
        .reason("gave up, because other processes changed the record at the same time")
        .place(failure::place(self.pool))
    }

    fn put_down(&mut self, connection: Checkout<DB>) {
        if self.reuses_connection {
            self.connection = Some(connection.into_idle());
        } else {
            connection.release();
        }
    }

    fn fail(&self, error: StoreError) -> StoreError {
        if self.may_be_applied && error.kind() != StoreErrorKind::Unknown {
            return error.with_kind(StoreErrorKind::Unknown);
        }
        error
    }
}

/// A connection of the pool. The error after the caller's deadline says why there was none.
async fn acquire<DB: Database>(pool: &Pool<DB>) -> Result<PoolConnection<DB>, StoreError> {
    let acquired = {
        let mut acquiring = pin!(pool.acquire());
        poll_fn(|cx| match acquiring.as_mut().poll(cx) {
            Poll::Ready(acquired) => Poll::Ready(Some(acquired)),
            Poll::Pending if is_last_poll() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    };
    match acquired {
        Some(acquired) => acquired.map_err(|error| failure::acquire_failed(error, pool).into()),
        // A connection that was being opened for this call no longer counts as one of the pool.
        None => Err(failure::acquire_overdue(pool).into()),
    }
}
