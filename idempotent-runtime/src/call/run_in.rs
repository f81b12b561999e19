//! Runs the body of a guarded call in a transaction of its caller.

use std::future::poll_fn;
use std::pin::pin;

use idempotent_driver::sql::driver::{Driver, TransactionPool};

use crate::call::answers::{AnswerDuplicate, Answers, Judge, Refuse};
use crate::call::builder::GuardedCall;
use crate::protocol::body_context::{AnyIntent, IdempotencyContext};
use crate::result::replay_mode::ReplayMode;
use crate::sql::{Retry, TxOutcome};

impl<E, S, D, M> GuardedCall<Answers<E, S, D, M>> {
    /// Runs `body` if no equal call has the key, with a row in the caller's transaction. The caller commits the writes of the
    /// body, the row and the result of [`replay`](Self::replay) together, or none of them. The handle's store is not used.
    ///
    /// The body runs in the scope of the caller and in the span of the call, as with the attribute's `tx` and with
    /// [`run`](Self::run). The handle of the call is not the handle of that [scope](crate::Idempotency::scope): a guarded
    /// function in the body uses its own `using`, or the handle of the caller's scope.
    ///
    /// Round trips: 1, with `replay` 2. A duplicate waits while the transaction of the first call is open, for at most
    /// [`wait`](Self::wait) (default: 5 s). There is no lease, so options of a lease are refused.
    ///
    /// # Databases
    ///
    /// The row is in the table `idempotence`, which `sql::migrate` creates. It is valid for `ttl` from the
    /// claim, with `replay` or [`run_in_new`](Self::run_in_new) from the end of the call. Other transactions see it after the commit. Its key is
    /// `idem:#tx:orders.pay:…`, which differs from the key of the same call in a store. So a call of [`run`](Self::run) with
    /// the same name and key may have this call in its body. [`peek_tx`](crate::Idempotency::peek_tx) reads the row.
    ///
    /// | | PostgreSQL | MySQL, MariaDB | SQLite |
    /// | --- | --- | --- | --- |
    /// | round trips | 1, with `replay` 2 | the same | the same, without a network |
    /// | of a duplicate | 2; 6 if it waits | 2; 3 if it waits in vain | 2 |
    /// | of a call that takes over an expired row | 3, with `replay` 4 | the same | 1, with `replay` 2 |
    /// | a duplicate of an open call waits for | `wait`, or 5 s | the same in whole seconds; MySQL itself for `innodb_lock_wait_timeout` | `wait`, or the connection's `busy_timeout`, which is 5 s by default |
    /// | the call is open for longer | `Error::InProgress` | `Error::InProgress` | `Error::Unavailable`: SQLite does not show who writes |
    /// | after a duplicate the transaction | goes on | goes on, with a shared lock on the row, for which other duplicates do not wait | goes on |
    /// | a deadlock | `Error::Unavailable`, the transaction goes on | `Error::Unavailable`, and the database has ended the transaction: later statements are committed one by one | never |
    /// | a snapshot that is older than the row | `Error::Unavailable` | sees the row; on MariaDB with `innodb_snapshot_isolation` as a deadlock | `Error::Unavailable` |
    ///
    /// After an error for which [`is_retryable_with_row`](crate::sql::is_retryable_with_row) is true, roll back and run the
    /// transaction again, as `sql::retry` does with [`Retry::with_row`](crate::sql::Retry::with_row). On
    /// PostgreSQL under REPEATABLE READ and SERIALIZABLE a claim takes 5 round trips, because without a savepoint a failure
    /// breaks the transaction. Under READ COMMITTED a call holds an advisory lock until the transaction ends, so a transaction
    /// with thousands of keys needs a larger `max_locks_per_transaction`. A duplicate holds this lock, too: if the row expires
    /// before the transaction of the duplicate ends, the next call with the key waits for that transaction. On SQLite, begin a
    /// transaction that will write with `begin_with("BEGIN IMMEDIATE")`.
    ///
    /// A connection without a transaction is refused with [`Error::Misconfigured`](crate::Error::Misconfigured), because the
    /// row would be committed without the work. Only transactions that sqlx began (`begin`, `begin_with`) are recognized.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). After an [`Error::Unavailable`](crate::Error::Unavailable) the transaction must be rolled back,
    /// even if the body ran. Then it may be run again. Only a call with `replay` can return
    /// [`Error::LeaseLost`](crate::Error::LeaseLost): after the body the row was no longer in the transaction, for example
    /// because the body continued after a deadlock on MySQL or MariaDB. Later statements were committed one by one, so check
    /// them before you run the transaction again.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the row may be in the transaction: roll back the transaction. If it is dropped while it waits,
    /// a connection to SQLite is busy until the wait ends, and its `busy_timeout` stays changed.
    #[doc(alias("去重表", "exactly-once"))]
    pub async fn run_in<X, R>(
        self,
        tx: &mut X,
        body: impl AsyncFnOnce(&mut X::Connection) -> R,
    ) -> R
    where
        X: Driver,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        self.run_in_with(tx, async |connection, _| body(connection).await)
            .await
    }

    /// Begins a transaction on `pool`, runs `body` in it as [`run_in`](Self::run_in) does, and commits it. After an error for which
    /// `policy` allows it, usually [`Retry::with_row`], all of this runs again: after a deadlock, a serialization failure, a lost
    /// connection and a lost reply to the `COMMIT`. `Retry::with_row().tries(1)` runs it once.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[cfg(feature = "sql")]
    /// # async fn example(idempotency: idempotence::Idempotency, pool: idempotence::sql::sqlx::SqlitePool) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    /// use std::time::Duration;
    /// use idempotence::sql::{Retry, sqlx};
    ///
    /// let call = idempotency.call("orders.pay").key("2026-11-21/42").ttl(Duration::from_hours(24)).replay();
    /// call.run_in_new(&pool, Retry::with_row(), async |tx| {
    ///     let paid = sqlx::query("INSERT INTO payment (order_no) VALUES (42)").execute(tx).await?;
    ///     Ok(paid.last_insert_rowid())
    /// })
    /// .await
    /// # }
    /// ```
    ///
    /// Equal calls of this process wait without a connection, for at most [`wait`](Self::wait) (default: 5 s), and get the result of the
    /// call that is committed. If that call fails, one of them runs. On a pool without an
    /// [identity](crate::sql::driver::TransactionPool::identity), as of SeaORM and bb8, each of them waits in the database.
    ///
    /// A success is committed. Any other outcome is rolled back, also one that `replay_err` chooses. On SQLite the transaction begins
    /// with `BEGIN IMMEDIATE`.
    ///
    /// Round trips of each attempt: `BEGIN`, 2 for the row, the statements of `body`, and `COMMIT` or `ROLLBACK`. The second one for the row
    /// also proves that no statement of `body` has failed unnoticed: PostgreSQL would answer the `COMMIT` without an error.
    ///
    /// # Errors
    ///
    /// As [`run_in`](Self::run_in). The error of a failed `COMMIT` is converted by `From` of the library's error.
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if no transaction begins within the
    /// [time for a connection](crate::sql::driver::TransactionPool::acquire_timeout) of the pool and the [deadline](crate::Builder::deadline)
    /// of the handle; if a statement of the row has no answer within the deadline, after which the rollback may take as long again; and if the `body` of a guarded call ignored an error that
    /// broke the transaction. Nothing is committed. A call that is not guarded, as with `when(false)`, does not notice such an error.
    ///
    /// The statement that claims the row may take longer: the deadline and `wait`, on MySQL and MariaDB at least 50 s more than the
    /// deadline, because MySQL does not read `wait`.
    ///
    /// A `COMMIT` may take 5 s longer than the deadline. Without an answer the call runs again as `policy` says: without `replay` it may
    /// find its own row, and return [`Error::AlreadyDone`](crate::Error::AlreadyDone). If there is no other attempt, or the database does
    /// not answer again, [`Error::LeaseLost`](crate::Error::LeaseLost): make the same call again.
    /// The statements of `body` have no limit, and SQLite, which always answers, has none.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the transaction is rolled back. If it is dropped during a `COMMIT`, or after a `COMMIT` whose reply was
    /// lost, the transaction may be committed.
    pub async fn run_in_new<P, R, Via>(
        self,
        pool: &P,
        policy: Retry,
        mut body: impl AsyncFnMut(&mut <P::Transaction as Driver>::Connection) -> R,
    ) -> R
    where
        P: TransactionPool,
        R: TxOutcome<Via, P::Error>,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.into_parts();
        let mut begin = match call.begin_on(pool.clone(), policy) {
            Ok(begin) => begin,
            Err(refusal) => return answers.refused(refusal),
        };
        loop {
            let mut tx = match begin.attempt().await {
                Ok(tx) => tx,
                Err(refusal) => return answers.refused(refusal),
            };
            let outcome = {
                let mut body = pin!(async { body(tx.connection()).await });
                poll_fn(|context| begin.poll_body(context, body.as_mut())).await
            };
            match begin.end(&answers, tx, outcome).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => return answers.refused(error),
            }
        }
    }

    /// Does the same as [`run_in`](Self::run_in), with a body that gets its [context](IdempotencyContext).
    pub async fn run_in_with<X, R>(
        self,
        tx: &mut X,
        body: impl AsyncFnOnce(&mut X::Connection, IdempotencyContext<AnyIntent>) -> R,
    ) -> R
    where
        X: Driver,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.into_parts();
        let mut held = match call.claim_in(tx).await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        let context = held.context();
        let outcome = {
            // The code that makes the future of the body also runs inside the call.
            let mut body = pin!(async { body(tx.connection(), context).await });
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        };
        answers.settle_in(held, outcome, tx).await
    }
}
