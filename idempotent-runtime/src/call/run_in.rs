//! Runs the body of a guarded call in a transaction of its caller.

use std::future::poll_fn;
use std::pin::pin;

use crate::call::answers::{AnswerDuplicate, Answers, Judge, Refuse};
use crate::call::builder::GuardedCall;
use crate::result::replay_mode::ReplayMode;
use crate::sql::AsConnection;

impl<E, S, D, M> GuardedCall<Answers<E, S, D, M>> {
    /// Runs `body` if no equal call has the key, and keeps its row in the caller's transaction: what the body writes
    /// through `tx`, the row and the result of [`replay`](Self::replay) are committed together, by the caller, or not at
    /// all. The handle's store is not used.
    ///
    /// The body is polled where the call is: in the scope of the caller, and in the span of the call. So it is with the attribute's
    /// `tx` and with [`run`](Self::run). None of them makes the handle of the call the one of its
    /// [scope](crate::Idempotency::scope): a guarded function that the body calls takes `using`, or the handle of the caller's scope.
    ///
    /// Round trips: 1, with `replay` 2. A duplicate of a call whose transaction is open waits for its end, at most for
    /// [`wait`](Self::wait) (default: 5 s). There is no lease: what is set of one is refused.
    ///
    /// # Databases
    ///
    /// The row is stored in the table `idempotence`, which [`migrate`](crate::sql::migrate) makes, for `ttl` from the claim on; with
    /// `replay` from the end of the call on. It is seen by others once it is committed. Its key is `idem:#tx:orders.pay:…`, and not
    /// the key of the same call in a store: a call that is guarded by [`run`](Self::run) may have the same name and key, and run this
    /// in its body. [`peek_tx`](crate::Idempotency::peek_tx) looks at the row.
    ///
    /// | | PostgreSQL | MySQL, MariaDB | SQLite |
    /// | --- | --- | --- | --- |
    /// | round trips | 1, with `replay` 2 | the same | the same, without a network |
    /// | of a duplicate | 2; 6 if it waits | 2; 3 if it waits in vain | 2 |
    /// | of a call that takes over an expired row | 1, with `replay` 2 | 3, with `replay` 4 | 1, with `replay` 2 |
    /// | a duplicate of an open call waits for | `wait`, or 5 s | the same in whole seconds; MySQL itself for `innodb_lock_wait_timeout` | `wait`, or the connection's `busy_timeout`, which is 5 s by default |
    /// | the call is open for longer | `Error::InProgress` | `Error::InProgress` | `Error::Unavailable`: who writes is not to be seen |
    /// | after a duplicate the transaction | goes on | goes on; it shares a lock on the row, which other duplicates do not wait for | goes on |
    /// | a deadlock | `Error::Unavailable`, the transaction goes on | `Error::Unavailable`, and the transaction is over: what is sent after is committed by itself | cannot be |
    /// | a snapshot that is older than the row | `Error::Unavailable` | sees the row | `Error::Unavailable` |
    ///
    /// After an error that [`is_retryable_with_row`](crate::sql::is_retryable_with_row) roll back, and run the transaction again, as
    /// [`sql::retry`](crate::sql::retry) does with [`Retry::with_row`](crate::sql::Retry::with_row).
    /// Under REPEATABLE READ and SERIALIZABLE a claim on PostgreSQL takes 5 round trips, because a failure breaks the
    /// transaction without a savepoint; under READ COMMITTED it holds an advisory lock until the transaction ends, so
    /// one with thousands of keys needs a larger `max_locks_per_transaction`. A transaction on SQLite that will write is
    /// best begun with `begin_with("BEGIN IMMEDIATE")`.
    ///
    /// A connection that is in no transaction is refused with [`Error::Misconfigured`](crate::Error::Misconfigured): its row
    /// would be committed without the work. Only transactions that were begun by sqlx (`begin`, `begin_with`) are seen.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). After an [`Error::Unavailable`](crate::Error::Unavailable) the transaction must be rolled back, also if the body ran;
    /// it may be run again. [`Error::LeaseLost`](crate::Error::LeaseLost), which only a call with `replay` can find out: the row was gone from the
    /// transaction when the body had ended, because the body went on after a deadlock on MySQL or MariaDB, say. What it
    /// sent after that was committed by itself, so look at it before the transaction is run again.
    ///
    /// # Cancellation
    ///
    /// Dropped, the row may be in the transaction: roll it back. A connection to SQLite that is dropped while it waits keeps the
    /// `busy_timeout` of that wait, and is busy until it ends.
    pub async fn run_in<X, R>(
        self,
        tx: &mut X,
        body: impl AsyncFnOnce(&mut <X::Database as sqlx::Database>::Connection) -> R,
    ) -> R
    where
        X: AsConnection,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.made();
        let mut held = match call.claim_in(tx).await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        let outcome = {
            // What it does before it returns its future is of the call, too.
            let mut body = pin!(async { body(tx.as_connection()).await });
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        };
        answers.settle_in(held, outcome, tx).await
    }
}
