//! A transaction of sqlx that runs again when the database asks for it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use idempotent_driver::port::begin;
use idempotent_driver::sql::Causes;
use idempotent_runtime::port::sql::TransactionAttempts;
use idempotent_runtime::sql::{Retry, is_retryable_with_row};
use sqlx::{Pool, Transaction};
use tokio::time::timeout;

use crate::database::Database;

/// Begins a transaction, runs `body` in it and commits it, and retries all of this as long as `policy` allows.
///
/// ```
/// # use idempotence::sql::sqlx;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> sqlx::Result<()> {
/// use idempotence::sql::{self, Retry};
///
/// sql::retry(&pool, Retry::when_nothing_was_done(), |tx| Box::pin(async {
///     sqlx::query("UPDATE account SET cents = cents - 500 WHERE id = 1").execute(&mut **tx).await?;
///     sqlx::query("UPDATE account SET cents = cents + 500 WHERE id = 2").execute(&mut **tx).await?;
///     Ok(())
/// }))
/// .await
/// # }
/// ```
///
/// `body` makes a new boxed future for each attempt, as in sqlx's `Connection::transaction`. If the work is a function, write
/// `|tx| Box::pin(pay(tx, order_no))`. (An `async |tx| …` that borrows could not be spawned, because the compiler cannot
/// prove that its future is `Send`.)
///
/// After an `Err` from `body` the transaction is rolled back before the pause. Use [`Retry::with_row`] for a `body` with a
/// guarded call (the option `tx`, or `run_in`). Give that call `replay`: an attempt after a `COMMIT` whose reply was lost then
/// returns the committed result instead of [`Error::AlreadyDone`](idempotent_runtime::Error::AlreadyDone).
///
/// `body` may run more than once, so its effects outside `tx` may happen more than once. It must return every error of a
/// statement: after an error the transaction may have ended. Later statements would then run outside it, and `COMMIT` would not
/// report that.
///
/// `E` is an error type with `From<sqlx::Error>` that implements `std::error::Error`, or `anyhow::Error`, `eyre::Report` or
/// `Box<dyn Error + Send + Sync>`.
///
/// On SQLite the transaction begins with `BEGIN IMMEDIATE`, elsewhere with `BEGIN`.
///
/// Round trips of each attempt: `BEGIN`, the statements of `body`, and `COMMIT` or `ROLLBACK`.
///
/// # Errors
///
/// The error of the last attempt: from `body`, or from `BEGIN` or `COMMIT`, converted by `E::from`. A duplicate and a pool
/// without a free connection are not retried. With [`Retry::with_row`] an error does not prove that nothing was done, because
/// an earlier attempt may be committed: make the same call again.
///
/// # Cancellation
///
/// If the future is dropped in `body` or between two attempts, the transaction is rolled back and nothing is done. If it is
/// dropped during a `COMMIT`, or with [`Retry::with_row`] after a `COMMIT`, the transaction may be committed.
pub async fn retry<'env, DB, T, E, Via>(
    pool: &Pool<DB>,
    policy: Retry,
    mut body: impl for<'tx> FnMut(&'tx mut Transaction<'env, DB>) -> BoxFuture<'tx, Result<T, E>>,
) -> Result<T, E>
where
    DB: Database,
    E: From<sqlx::Error> + Causes<Via>,
{
    let mut attempts = TransactionAttempts::new(policy);
    loop {
        let (error, again) = match begin(pool).await {
            // Only `BEGIN` was sent, so the attempt can be repeated even after a lost connection.
            Err(error) => {
                let again = is_retryable_with_row(&error);
                (E::from(error), again)
            }
            Ok(tx) => match commit_or_roll_back(tx, &mut body).await {
                Ok(done) => return Ok(done),
                Err(error) => {
                    let again = attempts.allow(error.first_cause(), true);
                    (error, again)
                }
            },
        };
        if !again || !attempts.pause().await {
            return Err(error);
        }
    }
}

async fn commit_or_roll_back<'env, DB, T, E>(
    mut tx: Transaction<'env, DB>,
    body: &mut impl for<'tx> FnMut(&'tx mut Transaction<'env, DB>) -> BoxFuture<'tx, Result<T, E>>,
) -> Result<T, E>
where
    DB: Database,
    E: From<sqlx::Error>,
{
    match body(&mut tx).await {
        Ok(done) => {
            tx.commit().await?;
            Ok(done)
        }
        Err(error) => {
            // If it fails or takes longer, the connection is lost, and the server rolls back.
            let _ = timeout(ROLLBACK_TIMEOUT, tx.rollback()).await;
            Err(error)
        }
    }
}

/// How long a rollback may take.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(5);
