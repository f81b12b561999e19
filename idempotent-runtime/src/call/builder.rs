//! Guarded calls without the attribute: for closures, message consumers, and endpoints with names from data.

mod also;
mod copied;
mod lease;
mod permits;
mod settle;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::call::Call;
use crate::call::answers::{Answers, Conversion};
use crate::call::required::{Given, NoKey, NoTtl};
use crate::error::{Duplicate, Error, Subject};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
use crate::result::outcome::Fallible;
use crate::result::replay::{Replay, Storable};
use crate::result::replay_mode::{HoldErr, ReplayOk, ReplayOkAndErr};

/// Builds a call without the attribute. Its methods are the attribute's options.
///
/// The last two type parameters record whether the call has a key and a `ttl`. By default it has both, so a function that prepares calls
/// returns a `GuardedCall`.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotence::Error> {
/// use std::time::Duration;
/// use idempotence::{Error, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// for delivery in 0..2 {
///     let receipt = idempotency
///         .call("orders.pay")
///         .key("2026-11-21/42")
///         .ttl(Duration::from_hours(24))
///         .replay()
///         .run(async { Ok::<_, Error>(format!("paid by delivery {delivery}")) })
///         .await?;
///     assert_eq!(receipt, "paid by delivery 0");
/// }
/// # Ok(()) }
/// ```
#[doc(alias("幂等", "防重复提交", "setnx", "dedup"))]
#[must_use = "a call does nothing until it is run"]
pub struct GuardedCall<A = Answers, K = Given, T = Given> {
    call: Call,
    key_parts: u32,
    policy: Policy,
    answers: A,
    required: PhantomData<(K, T)>,
}

impl Idempotency {
    /// Starts a guarded call without the attribute, of the endpoint with this name: at most 128 of `A-Z a-z 0-9 . _ -`.
    ///
    /// An endpoint is the common name of calls, such as `orders.pay`. The key is what differs between them. Give the call a
    /// [`key`](GuardedCall::key) or a [`token`](GuardedCall::token), and a [`ttl`](GuardedCall::ttl), then
    /// [`run`](GuardedCall::run) a body: without them `run` does not compile. For one key that all calls share, the key is
    /// `&()`.
    ///
    /// A call with an invalid name does not run its body: its error is [`Error::InvalidKey`]. Names may be made at run time,
    /// but put what varies into the key: [`endpoints`](Self::endpoints) lists only the 10,000 names that were called last, and
    /// metrics have labels only for the first thousand.
    pub fn call(
        &self,
        endpoint: impl Into<Cow<'static, str>>,
    ) -> GuardedCall<Answers, NoKey, NoTtl> {
        let policy = Policy::new(Duration::ZERO);
        GuardedCall {
            call: match Endpoint::try_new(endpoint) {
                Ok(endpoint) => Call::new(endpoint, policy, Some(self)),
                Err(name) => Call::refused(
                    self.shared().observers(),
                    Error::invalid_name(Subject::Call, &name),
                ),
            },
            key_parts: 0,
            policy,
            answers: Answers::new(),
            required: PhantomData,
        }
    }
}

impl<A, K, T> GuardedCall<A, K, T> {
    /// Adds a part to the key: a tuple is one part, and `.key(&a).key(&b)` are two.
    ///
    /// With a [`token`](Self::token) the token's subject and operation are also part of the key.
    ///
    /// `None` is a part like any other: calls with `None` there are equal, and get each other's results. For an optional key,
    /// such as an `Option<IdempotencyKey>`, use [`when`](Self::when) to guard only the calls that have a key.
    pub fn key<P: KeyPart + ?Sized>(mut self, part: &P) -> GuardedCall<A, Given, T> {
        self.call.part(part);
        self.key_parts = self.key_parts.saturating_add(1);
        self.with_required()
    }

    /// Sets whether this call is guarded. Default: it is. If not, the body runs without a key: nothing is sent to the store or recorded, no
    /// call is a duplicate of it, and its event is [`Bypassed`](crate::EventKind::Bypassed). Not with a [`token`](Self::token).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, RequestId};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let (user, request_id) = (42, None::<RequestId>); // an old client without request ids
    /// for order_no in 1..=3 {
    ///     let placed = idempotency
    ///         .call("orders.place")
    ///         .key(&(user, &request_id))
    ///         .when(request_id.is_some())
    ///         .ttl(Duration::from_hours(24))
    ///         .replay()
    ///         .run(async { Ok::<_, Error>(order_no) })
    ///         .await?;
    ///     assert_eq!(placed, order_no); // three orders
    /// }
    /// # Ok(()) }
    /// ```
    pub fn when(mut self, guarded: bool) -> Self {
        self.call.when(guarded);
        self
    }

    /// Redeems a one-time token before the body runs: a token that was [issued](crate::Tokens::issue) to this subject, for this operation.
    ///
    /// Without a [`key`](Self::key) the token is the key. With a key, the subject and the operation are part of it, in
    /// whichever order the two methods are called. So a caller with the token of another subject, or with an invented token,
    /// gets no result of another call and takes no key of it. Calls of one subject with equal keys are equal, whatever their
    /// tokens. So a call with a second token, even a used or expired token, is a duplicate of the call with the first token. A
    /// token that was issued to `&()` is not bound to a subject: all callers with the same key make equal calls.
    ///
    /// The claim comes before the token, so a duplicate gets its usual answer, for example the stored result of
    /// [`replay`](Self::replay). Costs one round trip. A malformed token is refused before anything is sent. While the store is
    /// unavailable, no body runs, whatever [`on_store_error`](Self::on_store_error) says. Not with `run_in`.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let (user, ttl) = (42, Duration::from_mins(30));
    /// let token = idempotency.tokens().issue(&user, "orders.submit", ttl).await?;
    /// for submit in 0..2 {
    ///     let order_no = idempotency
    ///         .call("orders.submit")
    ///         .token(&token, &user, "orders.submit")
    ///         .ttl(ttl)
    ///         .replay()
    ///         .run(async { Ok::<_, Error>(1000 + submit) })
    ///         .await?;
    ///     assert_eq!(order_no, 1000); // the second one gets the result of the first
    /// }
    /// # Ok(()) }
    /// ```
    pub fn token<O, S>(
        mut self,
        token: &O,
        subject: &S,
        operation: impl Into<Cow<'static, str>>,
    ) -> GuardedCall<A, Given, T>
    where
        O: AsRef<str> + ?Sized,
        S: KeyPart + ?Sized,
    {
        let operation =
            Endpoint::try_new(operation).map_err(|name| Error::invalid_name(Subject::Token, &name));
        self.call.redeem(operation, token.as_ref(), subject);
        self.with_required()
    }

    /// Makes the token redeemable again if the body does not succeed, or if it is dropped and [`on_cancel`](Self::on_cancel) frees the key.
    /// Default: the token stays used.
    ///
    /// With [`OnCancel::Release`] a client that can drop the call can run the beginning of the body repeatedly with one token.
    pub fn give_back(mut self) -> Self {
        self.policy = self.policy.give_back();
        self
    }

    /// Adds a part to the payload. Calls with one key must have equal payloads.
    pub fn payload<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        self.call.payload(part);
        self
    }

    /// Sets how long the key stays taken after the end of the call. There is no default.
    pub fn ttl(mut self, ttl: Duration) -> GuardedCall<A, K, Given> {
        self.policy.ttl = ttl;
        self.with_required()
    }

    /// Takes the `ttl` from the handle's [`Settings`](crate::Settings). If they set none for this endpoint, the body does not run, and
    /// the error is [`Error::InvalidPolicy`].
    pub fn ttl_from_settings(mut self) -> GuardedCall<A, K, Given> {
        self.policy.ttl = Duration::ZERO;
        self.with_required()
    }

    /// Sets when the key becomes free. Default: [`Release::OnError`].
    pub fn release(mut self, release: Release) -> Self {
        self.policy = self.policy.release(release);
        self
    }

    /// Sets how long the lease is renewed. Default: [`Renew::Yes`].
    pub fn renew(mut self, renew: Renew) -> Self {
        self.policy = self.policy.renew(renew);
        self
    }

    /// Gives each run of the key a larger number than all runs before: [`try_fence`](crate::IdempotencyContext::try_fence) of its
    /// context. Costs one more round trip after the body; without a step of the store (MySQL, MariaDB, your own store) two more before it,
    /// or four (your own: three) if the key had a number. Keys keep the number for a day at least. Not with `run_in`.
    pub fn fence(mut self) -> Self {
        self.policy = self.policy.fence();
        self
    }

    /// Sets how long a duplicate waits for the end of a running call. Default: it does not wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy = self.policy.wait(wait);
        self
    }

    /// Sets what a dropped future does to the key. Default: [`OnCancel::Keep`]. For the attribute's `"finish"` see
    /// [`run_to_end`](Self::run_to_end).
    ///
    /// With [`OnCancel::Release`] a client that can drop the call can repeat the beginning of its body.
    pub fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.policy = self.policy.on_cancel(on_cancel);
        self
    }

    /// Sets what a lost lease does to the body. Default: [`OnLeaseLost::Stop`], and with [`OnStoreError::Run`]
    /// [`OnLeaseLost::Continue`].
    pub fn on_lease_lost(mut self, on_lease_lost: OnLeaseLost) -> Self {
        self.policy = self.policy.on_lease_lost(on_lease_lost);
        self
    }

    /// Sets what an unavailable store does to the call. Default: [`OnStoreError::Refuse`].
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.policy = self.policy.on_store_error(on_store_error);
        self
    }
}

/// A call with the types of its answers: error, success, duplicate and stored result.
type Answering<E, S, D, M, K, T> = GuardedCall<Answers<E, S, D, M>, K, T>;

impl<E, S, D, M, K, T> GuardedCall<Answers<E, S, D, M>, K, T> {
    /// Converts an [`Error`] into the caller's error, for error types that cannot implement `From<Error>`.
    pub fn error<R, X>(self, error: fn(Error) -> X) -> Answering<Conversion<R, X>, S, D, M, K, T>
    where
        R: Fallible<X>,
    {
        self.answering(|answers| answers.error(Conversion::new(error)))
    }

    /// Sets what counts as a success. Default: `Ok`. An `Err` that counts has no value for [`replay`](GuardedCall::replay): its duplicates
    /// get [`Error::AlreadyDone`].
    pub fn success<R, F>(self, success: F) -> Answering<E, F, D, M, K, T>
    where
        F: Fn(&R) -> bool,
    {
        self.answering(|answers| answers.judge(success))
    }

    /// Holds the key for `ttl` after an `Err` for which `unknown` is true: whether the body did its work is not known, as after a
    /// timeout of a payment provider. Duplicates get [`Error::OutcomeUnknown`], and [`Idempotency::forget`] frees the key.
    ///
    /// Such an error is not stored, also if [`replay_err`](Self::replay_err) chooses it, and does not count as a success. Call
    /// this after `replay` and `replay_err`. With `run_in` the key is held only if the caller commits.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore};
    /// # #[derive(Debug)]
    /// enum PayError {
    ///     Timeout, // the money may have moved
    ///     Declined,
    ///     Refused(Error),
    /// }
    /// # impl From<Error> for PayError { fn from(error: Error) -> Self { Self::Refused(error) } }
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let pay = |answer| {
    ///     let call = idempotency.call("orders.pay").key(&42).ttl(Duration::from_hours(24));
    ///     call.hold_err(|error: &PayError| matches!(error, PayError::Timeout))
    ///         .run(async move { answer })
    /// };
    /// assert!(matches!(pay(Err(PayError::Declined)).await, Err(PayError::Declined))); // the key is free
    /// assert!(matches!(pay(Err(PayError::Timeout)).await, Err(PayError::Timeout)));
    /// let Err(PayError::Refused(error)) = pay(Ok(())).await else { panic!("the key is held") };
    /// assert_eq!(error.code(), "outcome_unknown");
    /// # Ok(()) }
    /// ```
    pub fn hold_err<R, X>(
        self,
        unknown: fn(&X) -> bool,
    ) -> Answering<E, S, D, HoldErr<M, R, X>, K, T>
    where
        R: Fallible<X>,
    {
        self.answering(|answers| answers.holding(unknown))
    }

    /// Answers a duplicate of a running or done call, if no result is stored for it. A call that only shares a key of
    /// [`also`](Self::also) with the running call is no duplicate: it gets the error. Not with [`permits`](Self::permits), whose calls
    /// have no duplicates.
    pub fn on_duplicate<R, F>(mut self, answer: F) -> Answering<E, S, F, M, K, T>
    where
        F: FnOnce(Duplicate) -> R,
    {
        self.call.answers_duplicates();
        self.answering(|answers| answers.on_duplicate(answer))
    }
}

impl<E, S, D, K, T> GuardedCall<Answers<E, S, D>, K, T> {
    /// Stores the value of a success, and answers duplicates with it; not with [`Release::Always`]. The record notes the name of its type
    /// without the path: for another name a duplicate gets [`Error::ResultUnavailable`]. With [`Release::Never`] it is stored until the
    /// claim would have expired, and until the call ends a duplicate of another process gets [`Error::Taken`].
    pub fn replay<R, Via>(mut self) -> Answering<E, S, D, ReplayOk<R>, K, T>
    where
        R: Replay<Via>,
    {
        self.policy = self.policy.replay();
        self.answering(Answers::replay)
    }
}

impl<E, S, D, R, K, T> GuardedCall<Answers<E, S, D, ReplayOk<R>>, K, T> {
    /// Also stores chosen errors, whatever [`success`](GuardedCall::success) says, and answers duplicates with them. A call without this
    /// option, as in an older version of the program, gets [`Error::ResultUnavailable`] for such a record, and no `on_duplicate` is asked.
    pub fn replay_err<X>(
        self,
        chosen: fn(&X) -> bool,
    ) -> Answering<E, S, D, ReplayOkAndErr<R, X>, K, T>
    where
        R: Fallible<X>,
        X: Storable,
    {
        self.answering(|answers| answers.replay_err(chosen))
    }
}

impl<A, K, T> GuardedCall<A, K, T> {
    fn answering<B>(self, answers: impl FnOnce(A) -> B) -> GuardedCall<B, K, T> {
        GuardedCall {
            call: self.call,
            key_parts: self.key_parts,
            policy: self.policy,
            answers: answers(self.answers),
            required: PhantomData,
        }
    }

    fn with_required<L, U>(self) -> GuardedCall<A, L, U> {
        GuardedCall {
            call: self.call,
            key_parts: self.key_parts,
            policy: self.policy,
            answers: self.answers,
            required: PhantomData,
        }
    }

    /// The complete call, and how it answers.
    pub(super) fn into_parts(mut self) -> (Call, A) {
        self.call.note_key_parts(self.key_parts);
        self.call.set_policy(self.policy);
        (self.call, self.answers)
    }
}

impl<A, K, T> fmt::Debug for GuardedCall<A, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedCall")
            .field("call", &self.call)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
