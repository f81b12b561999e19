//! Guarded calls without the attribute: for closures, message consumers, and endpoints whose names are data.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, Pending, pending};
use std::marker::PhantomData;
use std::time::Duration;

use crate::call::Call;
use crate::call::answers::{Answers, Conversion};
use crate::error::{Duplicate, Error};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
use crate::result::outcome::Fallible;
use crate::result::replay::{Replay, Storable};
use crate::result::replay_mode::{ReplayOk, ReplayOkAndErr};

/// A call in the making that does what the attribute does: its methods are the attribute's options.
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
#[must_use = "a call does nothing until it is run"]
pub struct GuardedCall<A = Answers, K = Given, T = Given> {
    call: Call,
    has_key: bool,
    policy: Policy,
    answers: A,
    required: PhantomData<(K, T)>,
}

/// The call has its key, or its `ttl`.
#[derive(Debug)]
pub struct Given;

/// The call has no key and no token yet.
#[derive(Debug)]
pub struct NoKey;

/// The call has no `ttl` yet.
#[derive(Debug)]
pub struct NoTtl;

/// A call that has a key.
#[diagnostic::on_unimplemented(
    message = "this call has no key: call `.key(…)` or `.token(…)` before it runs",
    label = "needs `.key(…)` or `.token(…)` before this",
    note = "`.key(&())` is one key for all calls of the endpoint"
)]
pub trait HasKey {}

/// A call that has a `ttl`.
#[diagnostic::on_unimplemented(
    message = "this call has no time to live: call `.ttl(…)` before it runs",
    label = "needs `.ttl(…)` before this",
    note = "`.ttl_from_settings()` takes it from the handle's `Settings`"
)]
pub trait HasTtl {}

impl HasKey for Given {}
impl HasTtl for Given {}

/// Lacks a key, a `ttl`, or both.
pub trait Incomplete {}

impl Incomplete for (NoKey, NoTtl) {}
impl Incomplete for (NoKey, Given) {}
impl Incomplete for (Given, NoTtl) {}

/// What an incomplete call has in place of [`run`](Self::run) and its like: none of these compiles. They are no `async fn`, because rustc
/// would repeat the error for each use of their futures.
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

    pub fn run_to_end<R>(self, _body: impl Future<Output = R>) -> Pending<R>
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
}

impl Idempotency {
    /// Starts a guarded call without the attribute, of the endpoint with this name: at most 128 of `A-Z a-z 0-9 . _ -`.
    ///
    /// An endpoint is what calls have in common, such as `orders.pay`. The key is what differs between them. Give the call a
    /// [`key`](GuardedCall::key) or a [`token`](GuardedCall::token), and a [`ttl`](GuardedCall::ttl), then [`run`](GuardedCall::run)
    /// a body: without them `run` does not compile. For one key that all calls share, the key is `&()`.
    ///
    /// A call with an invalid name does not run its body: its error is [`Error::InvalidKey`]. Names may be made at run time, but keep
    /// what varies in the key: [`endpoints`](Self::endpoints) lists the 10,000 names that were called last, and metrics
    /// have labels for the first thousand.
    pub fn call(
        &self,
        endpoint: impl Into<Cow<'static, str>>,
    ) -> GuardedCall<Answers, NoKey, NoTtl> {
        let policy = Policy::new(Duration::ZERO);
        GuardedCall {
            call: match Endpoint::try_new(endpoint) {
                Ok(endpoint) => Call::new(endpoint, policy, Some(self)),
                Err(name) => Call::refused(self.shared().observers(), Error::invalid_name(name)),
            },
            has_key: false,
            policy,
            answers: Answers::new(),
            required: PhantomData,
        }
    }
}

impl<A, K, T> GuardedCall<A, K, T> {
    /// Adds a part to the key, after those that it has. Of a call with a [`token`](Self::token), whom that was issued to and
    /// for what is part of the key as well.
    ///
    /// A part that may be missing is a part all the same: calls with `None` there are equal, and get each other's result.
    /// Of an optional key, such as an `Option<IdempotencyKey>`, say [`when`](Self::when) the call has one.
    pub fn key<P: KeyPart + ?Sized>(mut self, part: &P) -> GuardedCall<A, Given, T> {
        self.call = self.call.part(part);
        self.has_key = true;
        self.with_required()
    }

    /// Says whether this call is guarded. If not, the body runs without a key: the store is not asked, nothing is recorded,
    /// no call is a duplicate of it, and its event is [`Bypassed`](crate::EventKind::Bypassed). Not with a
    /// [`token`](Self::token). Default: it is.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, RequestId};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let (user, request_id) = (42, None::<RequestId>); // an old client, which sends none
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
        self.call = self.call.when(guarded);
        self
    }

    /// Has the call redeem a one-time token before its body runs: one that was [issued](crate::Tokens::issue) to this
    /// subject, for this operation.
    ///
    /// Without a [`key`](Self::key) the token is the key. With one, the subject and the operation are part of the key, in
    /// whichever order the two methods are called: with a token of somebody else, or an invented one, nobody is given the
    /// result of another's call, or holds its key. The tokens of one subject are told apart by nothing but the key, so its
    /// second token, also a used or expired one, makes a duplicate of the call that came with its first. A token that was
    /// issued to `&()` is anybody's: all who know the key make equal calls.
    ///
    /// The call is claimed first, so that a duplicate is answered as ever, with the stored result of [`replay`](Self::replay)
    /// for one. Costs one round trip; a token that is malformed is refused before anything is sent. While the store is
    /// away, no body runs, whatever [`on_store_error`](Self::on_store_error) says. Not with `run_in`.
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
        let operation = Endpoint::try_new(operation).map_err(Error::invalid_name);
        self.call = self.call.redeeming(operation, token.as_ref(), subject);
        self.with_required()
    }

    /// Has the token be given back, for the rest of its time, when nothing was done: the body ended without success, or it was
    /// dropped and [`on_cancel`](Self::on_cancel) frees the key. Default: the token stays used.
    ///
    /// With [`OnCancel::Release`] whoever can drop the call can run the beginning of the body with one token as often as it likes.
    pub fn give_back(mut self) -> Self {
        self.policy = self.policy.give_back();
        self
    }

    /// Adds a part to the payload: what must be equal among calls with one key.
    pub fn payload<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        self.call = self.call.payload(part);
        self
    }

    /// Sets how long the key stays taken after the call that ended it. There is no default.
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

    /// Sets how long an unfinished claim outlives a silent holder; only with [`Release::OnError`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.policy = self.policy.lease(lease);
        self
    }

    /// Sets how long the lease is kept alive. Default: [`Renew::Yes`].
    pub fn renew(mut self, renew: Renew) -> Self {
        self.policy = self.policy.renew(renew);
        self
    }

    /// Sets how long a duplicate of a running call waits for it to end. Default: it does not.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy = self.policy.wait(wait);
        self
    }

    /// Sets what a dropped future does to the key. Default: [`OnCancel::Keep`]. For the attribute's `"finish"` see
    /// [`run_to_end`](Self::run_to_end).
    ///
    /// [`OnCancel::Release`] lets whoever can drop the call repeat the beginning of its body at will.
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

impl<E, S, D, M, K, T> GuardedCall<Answers<E, S, D, M>, K, T> {
    /// Makes the caller's error of ours, for error types that cannot implement `From<Error>`.
    pub fn error<R, X>(
        self,
        error: fn(Error) -> X,
    ) -> GuardedCall<Answers<Conversion<R, X>, S, D, M>, K, T>
    where
        R: Fallible<X>,
    {
        self.answering(|answers| answers.error(Conversion::of(error)))
    }

    /// Sets what counts as a success. Default: `Ok`.
    pub fn success<R, F>(self, success: F) -> GuardedCall<Answers<E, F, D, M>, K, T>
    where
        F: Fn(&R) -> bool,
    {
        self.answering(|answers| answers.judge(success))
    }

    /// Answers a duplicate of a running or done call, for which no result is kept.
    pub fn on_duplicate<R, F>(self, answer: F) -> GuardedCall<Answers<E, S, F, M>, K, T>
    where
        F: FnOnce(Duplicate) -> R,
    {
        self.answering(|answers| answers.on_duplicate(answer))
    }
}

impl<E, S, D, K, T> GuardedCall<Answers<E, S, D>, K, T> {
    /// Stores the value of a success, and answers duplicates with it; not with [`Release::Always`].
    pub fn replay<R, Via>(mut self) -> GuardedCall<Answers<E, S, D, ReplayOk<R>>, K, T>
    where
        R: Replay<Via>,
    {
        self.policy = self.policy.replay();
        self.answering(Answers::replay)
    }
}

impl<E, S, D, R, K, T> GuardedCall<Answers<E, S, D, ReplayOk<R>>, K, T> {
    /// Stores chosen errors, too, and answers duplicates with them.
    pub fn replay_err<X>(
        self,
        chosen: fn(&X) -> bool,
    ) -> GuardedCall<Answers<E, S, D, ReplayOkAndErr<R, X>>, K, T>
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
            has_key: self.has_key,
            policy: self.policy,
            answers: answers(self.answers),
            required: PhantomData,
        }
    }

    fn with_required<L, U>(self) -> GuardedCall<A, L, U> {
        GuardedCall {
            call: self.call,
            has_key: self.has_key,
            policy: self.policy,
            answers: self.answers,
            required: PhantomData,
        }
    }

    /// The call with all that was said of it, and how it is answered.
    pub(super) fn made(self) -> (Call, A) {
        let call = if self.has_key {
            self.call
        } else {
            self.call.keyed()
        };
        (call.with(self.policy), self.answers)
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
