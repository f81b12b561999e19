//! How a call returns an error, what it counts as a success, and which results it stores for duplicates.
//!
//! The attribute and the builder set these fields by options of the same names. The attribute sets `success` and `error`
//! together, and passes `duplicate` only for a duplicate:
//!
//! | field | option | default |
//! | --- | --- | --- |
//! | `error` | `error` | the return type contains the error, and knows its successes |
//! | `success` | `success` | the successes of `error` |
//! | `duplicate` | `on_duplicate` | a duplicate gets an error, as every refused call |
//! | `keep` | `replay`, `replay_err`, `hold_err` | no result is stored, and each outcome is known |

use std::convert;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::call::finish::Finish;
use crate::call::in_tx::InTx;
use crate::error::{Duplicate, Error};
#[cfg(feature = "sql")]
use crate::protocol::context::CallContext;
use crate::protocol::ending::SettleOutcome;
use crate::protocol::held::Held;
use crate::protocol::refusal::Refusal;
#[cfg(feature = "sql")]
use crate::result::body_outcome::BodyOutcome;
use crate::result::outcome::{Fallible, Outcome};
use crate::result::replay::{Replay, Storable};
use crate::result::replay_mode::{HoldErr, NoReplay, ReplayMode, ReplayOk, ReplayOkAndErr};
use crate::store::rows::Rows;

/// How a call answers, and how it decides whether an outcome is a success.
#[derive(Debug, Clone, Copy)]
pub struct Answers<E = Unset, S = Unset, D = Unset, K = NoReplay> {
    error: E,
    success: S,
    duplicate: D,
    keep: K,
}

/// The `Answers` of a function with the attribute, which returns an `R`.
pub type Returns<R, E, K = NoReplay> = Answers<Conversion<R, E>, Unset, Unset, K>;

/// An option that is not set.
#[derive(Debug, Clone, Copy)]
pub struct Unset;

/// How an [`Error`] becomes an outcome `R`, through an error `E` of the caller, and which outcomes are successes.
pub struct Conversion<R, E> {
    convert: fn(Error) -> E,
    wrap: fn(E) -> R,
    success: fn(&R) -> bool,
}

/// The only place of an expansion that requires [`Outcome`], so that rustc reports its absence once.
pub fn returns<R: Outcome>() -> Returns<R, Error> {
    Answers::new().error(Conversion {
        convert: convert::identity,
        wrap: R::refused,
        success: R::is_success,
    })
}

/// As [`returns`], for the option `error`.
pub fn returns_with<R: Fallible<E>, E>(error: fn(Error) -> E) -> Returns<R, E> {
    Answers::new().error(Conversion::new(error))
}

/// Stores results for duplicates, for the option `replay`. This is the only place of an expansion that requires [`Replay`].
pub fn replaying<R: Replay<Via>, E, Via>(returns: Returns<R, E>) -> Returns<R, E, ReplayOk<R>> {
    returns.replay()
}

impl Answers {
    /// The defaults of the return type.
    pub(crate) fn new() -> Self {
        Self {
            error: Unset,
            success: Unset,
            duplicate: Unset,
            keep: NoReplay,
        }
    }
}

impl<R, E, K> Returns<R, E, K> {
    /// Replaces what counts as a success, for the option `success`.
    #[must_use]
    pub fn success(mut self, success: fn(&R) -> bool) -> Self {
        self.error.success = success;
        self
    }

    /// Holds the key after chosen errors, for the option `hold_err`.
    #[must_use]
    pub fn hold_err<X>(self, unknown: fn(&X) -> bool) -> Returns<R, E, HoldErr<K, R, X>>
    where
        R: Fallible<X>,
    {
        self.holding(unknown)
    }

    /// As [`refused`](Self::refused), with a closure for duplicates: the option `on_duplicate`.
    pub fn answered(self, refusal: Refusal, answer: impl FnOnce(Duplicate) -> R) -> R
    where
        K: ReplayMode<R>,
    {
        self.on_duplicate(answer).refused(refusal)
    }
}

impl<E, S, D, R> Answers<E, S, D, ReplayOk<R>> {
    /// Also stores chosen errors, for the option `replay_err`.
    #[must_use]
    pub fn replay_err<X>(self, chosen: fn(&X) -> bool) -> Answers<E, S, D, ReplayOkAndErr<R, X>>
    where
        R: Fallible<X>,
        X: Storable,
    {
        let values = self.keep;
        self.keeping(values.and(chosen))
    }
}

impl<E, S, D> Answers<E, S, D> {
    /// Stores the value of a success.
    pub(crate) fn replay<R, Via>(self) -> Answers<E, S, D, ReplayOk<R>>
    where
        R: Replay<Via>,
    {
        self.keeping(ReplayOk::new())
    }
}

impl<E, S, D, K> Answers<E, S, D, K> {
    pub(crate) fn error<F>(self, error: F) -> Answers<F, S, D, K> {
        Answers {
            error,
            success: self.success,
            duplicate: self.duplicate,
            keep: self.keep,
        }
    }

    pub(crate) fn judge<F>(self, success: F) -> Answers<E, F, D, K> {
        Answers {
            error: self.error,
            success,
            duplicate: self.duplicate,
            keep: self.keep,
        }
    }

    pub(crate) fn on_duplicate<F>(self, duplicate: F) -> Answers<E, S, F, K> {
        Answers {
            error: self.error,
            success: self.success,
            duplicate,
            keep: self.keep,
        }
    }

    /// Holds the key after errors that say that the outcome is unknown.
    pub(crate) fn holding<R, X>(self, unknown: fn(&X) -> bool) -> Answers<E, S, D, HoldErr<K, R, X>>
    where
        R: Fallible<X>,
    {
        Answers {
            error: self.error,
            success: self.success,
            duplicate: self.duplicate,
            keep: HoldErr::new(self.keep, unknown),
        }
    }

    fn keeping<L>(self, keep: L) -> Answers<E, S, D, L> {
        Answers {
            error: self.error,
            success: self.success,
            duplicate: self.duplicate,
            keep,
        }
    }

    /// The return value of a call whose body did not run: the result of the first call, the answer to a duplicate, or an error.
    #[inline]
    pub fn refused<R>(self, refusal: impl Into<Refusal>) -> R
    where
        E: Refuse<R>,
        D: AnswerDuplicate<R>,
        K: ReplayMode<R>,
    {
        self.refused_by(refusal.into())
    }

    fn refused_by<R>(self, refusal: Refusal) -> R
    where
        E: Refuse<R>,
        D: AnswerDuplicate<R>,
        K: ReplayMode<R>,
    {
        let replayed = refusal.read(self.keep);
        match replayed.or_else(|error| self.duplicate.answered(error)) {
            Ok(outcome) => outcome,
            Err(error) => self.error.refused(error),
        }
    }

    /// Ends a call whose body returned `outcome`. It reads `outcome` before it awaits anything.
    pub fn settle<R>(
        &self,
        held: Held,
        outcome: &R,
    ) -> impl Future<Output = SettleOutcome> + Send + use<R, E, S, D, K>
    where
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        held.settle_with(self.keep, outcome, self.is_success(outcome))
    }

    /// Ends a call whose row is in its caller's transaction, and writes the row through `tx`. If that fails, returns the error
    /// instead of the outcome.
    pub fn settle_in<R>(
        self,
        held: InTx,
        outcome: R,
        tx: &mut dyn Rows,
    ) -> impl Future<Output = R> + use<'_, R, E, S, D, K>
    where
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        let settled = held.settle_with(self.keep, &outcome, self.is_success(&outcome), tx);
        let error = self.error;
        async move {
            match settled.await {
                Ok(()) => outcome,
                Err(unwritten) => error.refused(unwritten),
            }
        }
    }

    /// Runs the body and settles the call. After the caller has dropped the future, this continues in its own task.
    pub fn finish<R>(self, held: Held, body: Pin<Box<dyn Future<Output = R> + Send>>) -> Finish<R>
    where
        Self: Send + 'static,
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
        R: Send + 'static,
    {
        let shared = Arc::clone(held.shared());
        Finish::new(shared, async move {
            let (held, outcome) = held.run(body).await?;
            let settled = self.settle(held, &outcome);
            settled.await;
            Ok(outcome)
        })
    }

    /// The outcome of a body of `call`, with the result that is stored for duplicates.
    #[cfg(feature = "sql")]
    pub(crate) fn end_of<R>(&self, call: &CallContext, outcome: &R) -> BodyOutcome
    where
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        call.end_of(self.keep, outcome, self.is_success(outcome))
    }

    fn is_success<R>(&self, outcome: &R) -> bool
    where
        E: Refuse<R>,
        S: Judge<R>,
    {
        let judged = self.success.is_success(outcome);
        judged.unwrap_or_else(|| self.error.is_success(outcome))
    }
}

/// Makes an outcome from an error.
pub trait Refuse<R> {
    /// The outcome of a refused call.
    fn refused(self, error: Error) -> R;

    /// Whether the body did its work.
    fn is_success(&self, outcome: &R) -> bool;
}

/// Decides what is a success.
pub trait Judge<R> {
    /// Whether the body did its work. `None` if this type does not decide it.
    fn is_success(&self, outcome: &R) -> Option<bool>;
}

/// Answers a duplicate for which no result is stored.
pub trait AnswerDuplicate<R> {
    /// The answer to the duplicate that the error is about.
    ///
    /// # Errors
    ///
    /// The error itself, if it is not about a duplicate, or if there is no closure for duplicates.
    fn answered(self, error: Error) -> Result<R, Error>;
}

impl<R: Outcome> Refuse<R> for Unset {
    fn refused(self, error: Error) -> R {
        R::refused(error)
    }

    fn is_success(&self, outcome: &R) -> bool {
        outcome.is_success()
    }
}

impl<R, E> Refuse<R> for Conversion<R, E> {
    fn refused(self, error: Error) -> R {
        (self.wrap)((self.convert)(error))
    }

    fn is_success(&self, outcome: &R) -> bool {
        (self.success)(outcome)
    }
}

impl<R> Judge<R> for Unset {
    fn is_success(&self, _: &R) -> Option<bool> {
        None
    }
}

impl<R, F: Fn(&R) -> bool> Judge<R> for F {
    fn is_success(&self, outcome: &R) -> Option<bool> {
        Some(self(outcome))
    }
}

impl<R> AnswerDuplicate<R> for Unset {
    fn answered(self, error: Error) -> Result<R, Error> {
        Err(error)
    }
}

impl<R, F: FnOnce(Duplicate) -> R> AnswerDuplicate<R> for F {
    fn answered(self, error: Error) -> Result<R, Error> {
        error.into_duplicate().map(self)
    }
}

impl<R, E> Conversion<R, E> {
    pub(crate) fn new(convert: fn(Error) -> E) -> Self
    where
        R: Fallible<E>,
    {
        Self {
            convert,
            wrap: R::failed,
            success: R::is_success,
        }
    }
}

impl<R, E> Clone for Conversion<R, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, E> Copy for Conversion<R, E> {}

impl<R, E> fmt::Debug for Conversion<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversion")
    }
}
