//! Runs the body of a guarded call.

use std::future::{Future, poll_fn};
use std::pin::pin;

use crate::call::answers::{AnswerDuplicate, Answers, Judge, Refuse};
use crate::call::builder::GuardedCall;
use crate::result::replay_mode::ReplayMode;

impl<E, S, D, M> GuardedCall<Answers<E, S, D, M>> {
    /// Runs `body` if no equal call has the key, and settles.
    ///
    /// # Errors
    ///
    /// What the return type makes of an [`Error`](crate::Error): the reasons are those of the attribute.
    ///
    /// # Cancellation
    ///
    /// Dropped, the key is left as [`on_cancel`](Self::on_cancel) says.
    pub async fn run<R>(self, body: impl Future<Output = R>) -> R
    where
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
    {
        let (call, answers) = self.made();
        let mut held = match call.claim().await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        #[expect(
            clippy::blocks_in_conditions,
            reason = "a variable more would be a copy of the outcome in the future"
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

    /// As [`run`](Self::run), with a body that runs to its end, also when the caller drops the future: then in a task
    /// of its own, inside the caller's scope and span.
    pub async fn run_to_end<R>(self, body: impl Future<Output = R> + Send + 'static) -> R
    where
        Answers<E, S, D, M>: Clone + Send + 'static,
        E: Refuse<R>,
        S: Judge<R>,
        D: AnswerDuplicate<R>,
        M: ReplayMode<R>,
        R: Send + 'static,
    {
        let (call, answers) = self.made();
        let held = match call.claim().await {
            Ok(held) => held,
            Err(refusal) => return answers.refused(refusal),
        };
        match answers.clone().finish(held, Box::pin(body)).await {
            Ok(outcome) => outcome,
            Err(error) => answers.refused(error),
        }
    }
}
