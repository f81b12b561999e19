//! Runs the body of a guarded call.

use std::future::{Future, Pending, pending, poll_fn};
use std::pin::pin;

use crate::call::answers::{AnswerDuplicate, Answers, Judge, Refuse};
use crate::call::builder::GuardedCall;
use crate::call::required::{HasKey, HasTtl, Incomplete};
use crate::protocol::body_context::{AnyIntent, IdempotencyContext};
use crate::result::replay_mode::ReplayMode;

impl<E, S, D, M> GuardedCall<Answers<E, S, D, M>> {
    /// Runs `body` if no equal call has the key, and stores how it ended.
    ///
    /// The key is freed or marked as done after the values of the body are dropped, and before the caller gets the result. The body runs
    /// at most once in each call.
    ///
    /// | call | round trips to the store |
    /// | --- | --- |
    /// | first | 2: claim, and record or release |
    /// | first, with `Release::Never` | 1: claim; 2 with [`replay`](Self::replay) |
    /// | first, with a token | 1 more to redeem it, 2 if it was given back before; 1 more to give it back |
    /// | with a [`fence`](Self::fence) | 1 more after the body |
    /// | with further keys ([`also`](Self::also)) | no more if the store claims them together; else, and if one is taken and the call waits, 1 more for each; on SQL a taken key costs 1 more for each key up to it |
    /// | refused for its token | 3: claim, token, removal; with a fence also the end of its number; none if the token is malformed |
    /// | duplicate | 1: claim; 1 more if a renewal of the running call seems to be late, by its age |
    /// | not guarded ([`when`](Self::when) is false) | 0 |
    /// | duplicate of a running call of the same process and handle | 0 |
    /// | duplicate that waits for another process | 1 to listen, then at most 10 a second for the process |
    ///
    /// After a lost reply the operation is sent again, within the [deadline](crate::Builder::deadline).
    ///
    /// # Errors
    ///
    /// The return type makes its value from an [`Error`](crate::Error), as with the attribute.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, [`on_cancel`](Self::on_cancel) decides about the key.
    pub async fn run<R>(self, body: impl Future<Output = R>) -> R
    where
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.into_parts();
        let mut held = match call.claim().await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        #[expect(
            clippy::blocks_in_conditions,
            reason = "another variable would store the outcome in the future twice"
        )]
        let outcome = match {
            let mut body = pin!(body);
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        } {
            Ok(outcome) => outcome,
            Err(error) => return answers.refused(error),
        };
        answers.settle(held, &outcome).await;
        outcome
    }

    /// Does the same as [`run`](Self::run), with a body that gets its [context](IdempotencyContext).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore};
    /// # async fn charge(_: u64, _: &str) -> Result<(), Error> { Ok(()) }
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let call = idempotency.call("orders.pay").key(&42).ttl(Duration::from_hours(24));
    /// call.run_with(async |cx| {
    ///     let key = cx.try_downstream_key("bank.charge")?;
    ///     charge(500, &key).await // if this body runs again for order 42, it sends the same key
    /// })
    /// .await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_with<R, F>(self, body: impl FnOnce(IdempotencyContext<AnyIntent>) -> F) -> R
    where
        F: Future<Output = R>,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.into_parts();
        let mut held = match call.claim().await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        let context = held.context();
        let outcome = {
            // The code that makes the future of the body also runs inside the call.
            let mut body = pin!(async move { body(context).await });
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        };
        match outcome {
            Ok(outcome) => {
                answers.settle(held, &outcome).await;
                outcome
            }
            Err(error) => answers.refused(error),
        }
    }

    /// Does the same as [`run`](Self::run), but the body runs to its end even if the caller drops the future: it then continues
    /// in its own task, inside the caller's scope and span.
    pub async fn run_to_end<R>(self, body: impl Future<Output = R> + Send + 'static) -> R
    where
        Answers<E, S, D, M>: Clone + Send + 'static,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
        R: Send + 'static,
    {
        self.run_to_end_with(move |_| body).await
    }

    /// Does the same as [`run_to_end`](Self::run_to_end), with a body that gets its [context](IdempotencyContext).
    pub async fn run_to_end_with<R, F>(
        self,
        body: impl FnOnce(IdempotencyContext<AnyIntent>) -> F + Send + 'static,
    ) -> R
    where
        F: Future<Output = R> + Send + 'static,
        Answers<E, S, D, M>: Clone + Send + 'static,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
        R: Send + 'static,
    {
        let (call, answers) = self.into_parts();
        let held = match call.claim().await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        let context = held.context();
        let body = Box::pin(async move { body(context).await });
        match answers.clone().finish(held, body).await {
            Ok(outcome) => outcome,
            Err(error) => answers.refused(error),
        }
    }
}

/// The methods that an incomplete call has in place of [`run`](Self::run) and its variants. No use of them compiles. They are
/// not `async fn`, because rustc would repeat the error for each use of their futures.
#[doc(hidden)]
impl<A, K, T> GuardedCall<A, K, T>
where
    (K, T): Incomplete,
{
    pub fn run<R>(self, _body: impl Future<Output = R>) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }

    pub fn run_with<R, B>(self, _body: B) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }

    pub fn run_to_end<R>(self, _body: impl Future<Output = R>) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }

    pub fn run_to_end_with<R, B>(self, _body: B) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }

    pub fn run_in<X, B, R>(self, _tx: &mut X, _body: B) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }

    pub fn run_in_with<X, B, R>(self, _tx: &mut X, _body: B) -> Pending<R>
    where
        K: HasKey,
        T: HasTtl,
    {
        pending()
    }
}
