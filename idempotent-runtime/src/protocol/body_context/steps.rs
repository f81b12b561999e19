//! The steps of a body: parts whose results are kept when the call runs again.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ContextCall, IdempotencyContext, NamesOneIntent};
use crate::error::{Error, Failure};
use crate::protocol::lease::Lease;
use crate::protocol::step;
use crate::protocol::step::Begun;
use crate::protocol::steps::{DoneStep, Place};
use crate::record::kept::Kept;
use crate::record::steps::place;
use crate::result::codec;

impl<I> IdempotencyContext<I> {
    /// Runs a part of the body, and keeps its result beside the key: when the call runs again, after an error or a crash, the step returns
    /// the result without running.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, IdempotencyContext};
    ///
    /// # async fn charge_card(_key: &str) -> Result<u64, Error> { Ok(1) }
    /// # async fn send_parcel(_receipt: u64) -> Result<String, Error> { Ok("P1".into()) }
    /// async fn order(cx: &IdempotencyContext) -> Result<String, Error> {
    ///     let receipt = cx.step("charge", async || charge_card(&cx.step_key("charge")).await).await?;
    ///     cx.step("ship", async || send_parcel(receipt).await).await // if it fails, the next run does not charge again
    /// }
    /// ```
    ///
    /// An `Ok` is kept; an `Err` is returned, and the step runs again in the next run. The results are written with the
    /// [codec](crate::Builder::codec) and the seal keys of the handle, and together are at most [`largest_result`](crate::Builder::largest_result).
    /// They are kept for the `ttl` of the call after the last step, and removed when the call succeeds, or by
    /// [`forget`](crate::Idempotency::forget) and [`forget_steps`](crate::Idempotency::forget_steps).
    ///
    /// `name` is 1 to 64 of `A-Z a-z 0-9 . _ -`, and used once in a call. The steps of a call always begin in the same order; steps that
    /// run at once, as in a `join!`, too. So no step begins inside of another, which the next run may skip. A call has at most 100.
    ///
    /// **A step may run again if its process dies between its effect and its record**, so send a [`step_key`](Self::step_key) with the
    /// effect. After a pause longer than the lease two runs may do one step at once: the first to record it goes on.
    /// A run that has lost its lease takes its record back if another run has succeeded. If it dies, is stopped or
    /// dropped, or the store is silent, right after it has written the record, a call after the `ttl` of that success may skip the step.
    ///
    /// In a call that is not [guarded](Self::is_guarded) the step runs, and is not recorded.
    ///
    /// Only a call with [`Release::OnError`](crate::Release::OnError) that is no row in a transaction has steps. In a function with the options
    /// `tx`, `release = true` or `release = false` a step does not compile; elsewhere it is [`Error::InvalidPolicy`].
    ///
    /// Round trips: 1 before the first step of a call, and 1 after each step that runs. A result that the store does not take at once is
    /// sent until the lease ends. After the lease each record costs 2 more.
    ///
    /// # Errors
    ///
    /// The error of the step. Or, made by `From`: [`Error::PayloadMismatch`] if a call with another payload recorded the steps;
    /// [`Error::LeaseLost`] if another run recorded a step meanwhile; [`Error::Unavailable`] or [`Error::Misconfigured`] if the store does not
    /// answer; [`Error::InvalidPolicy`] in a call that has no steps, and for a name that is used twice, another
    /// order, another type or a result that is too large, whose source names the places in the code; [`Error::ForeignRecord`].
    ///
    /// Each frees the key as every `Err` of the body does, also if the step ran and may not be recorded. Then the step runs again, unless
    /// [`hold_err`](crate::GuardedCall::hold_err) names the error. A step whose record could not be read has not run, and may begin again
    /// in the same call.
    ///
    /// # Cancellation
    ///
    /// A step that is dropped while it runs is not recorded. One that is dropped while its result is sent may be recorded.
    #[doc(alias("recovery point", "checkpoint", "saga"))]
    #[track_caller]
    pub fn step<T, E, F>(&self, name: &'static str, body: F) -> impl Future<Output = Result<T, E>>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        self.run_step(here(name), body)
    }

    /// A key for the request that the step `name` sends to another service: a [`downstream_key`](Self::downstream_key) of its own.
    ///
    /// A step that runs again sends the same key, so the other service recognizes the repetition. It is the downstream key with the name
    /// `step/` and `name`.
    pub fn step_key(&self, name: &str) -> String
    where
        I: NamesOneIntent,
    {
        self.downstream_key(&in_step(name))
    }

    /// Does the same as [`step_key`](Self::step_key), for a call whose release is known only when it runs.
    ///
    /// # Errors
    ///
    /// As [`try_downstream_key`](Self::try_downstream_key).
    pub fn try_step_key(&self, name: &str) -> Result<String, Error> {
        self.try_downstream_key(&in_step(name))
    }

    async fn run_step<T, E, F>(&self, step: Place, body: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let Some(lease) = self.recording()? else {
            return body().await;
        };
        let position = match step::begin(lease, &step).await? {
            Begun::Run(position) => position,
            Begun::Done(done) => return Ok(result(lease, &step, &done)?),
        };
        let value = body().await?;
        let options = lease.call().shared.result_options();
        step::record(lease, &step, position, options.store::<T>(&value, false)).await?;
        Ok(value)
    }

    /// The claim of the call; `None` if the call is not guarded.
    fn recording(&self) -> Result<Option<&Arc<Lease>>, Error> {
        match &self.call {
            ContextCall::Claim(lease) => Ok(Some(lease)),
            ContextCall::Unguarded(_) => Ok(None),
            ContextCall::Row(call) => {
                let what = "a call whose key is a row in a transaction has no steps, because a rollback undoes their work; write them without \
                            `step`, and for an effect elsewhere use the outbox";
                let site = call.site.clone();
                Err(Error::InvalidPolicy(Failure::new(site, what, None)))
            }
        }
    }
}

/// The recorded result of a step.
fn result<T: DeserializeOwned>(lease: &Lease, step: &Place, done: &DoneStep) -> Result<T, Error> {
    let Kept::Result(stored) = &done.kept else {
        let unstorable = step::unstorable(lease, step, &done.kept);
        return Err(unstorable.unwrap_or_else(|| step::unreadable(lease, &done.step, step)));
    };
    let is_same_type = stored.schema == codec::schema::<T>();
    let value =
        is_same_type.then(|| codec::decode(stored.form, stored.option_depth, &stored.bytes));
    match value {
        Some(Ok(value)) => Ok(value),
        _ => Err(step::unreadable(lease, &done.step, step)),
    }
}

fn in_step(name: &str) -> String {
    format!("step/{name}")
}

/// The step `name` of the code that calls this function's caller.
#[track_caller]
fn here(name: &'static str) -> Place {
    let here = Location::caller();
    Place {
        name: name.to_owned(),
        place: place(here.file(), here.line()),
    }
}
