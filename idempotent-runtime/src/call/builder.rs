//! Guarded calls without the attribute: for closures, message consumers, and endpoints whose names are data.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::call::Call;
use crate::call::finish::Finish;
use crate::error::{Duplicate, Error};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
use crate::protocol::refusal::Refusal;
use crate::result::keep::{Keep, Nothing, Values, ValuesAnd};
use crate::result::outcome::{Fallible, Outcome};
use crate::result::replay::{Replay, Storable};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use crate::sql::AsConnection;

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
pub struct GuardedCall<A = Plainly, K = Nothing> {
    call: Call,
    has_key: bool,
    policy: Policy,
    answers: A,
    keep: K,
}

impl Idempotency {
    /// Begins a call of the endpoint with this name: at most 128 of `A-Z a-z 0-9 . _ -`.
    ///
    /// An endpoint is what the calls have in common, such as `orders.pay`; what differs among them is the key. Of names that are
    /// data the 10,000 called last are listed by [`endpoints`](Self::endpoints), and the first thousand are labels of metrics.
    ///
    /// Name its key and its `ttl`, then [`run`](GuardedCall::run) a body. For one key that all calls share, the key is `&()`.
    pub fn call(&self, endpoint: impl Into<Cow<'static, str>>) -> GuardedCall {
        let policy = Policy::new(Duration::ZERO);
        GuardedCall {
            call: match Endpoint::try_new(endpoint) {
                Ok(endpoint) => Call::new(endpoint, policy, Some(self)),
                Err(name) => Call::refused(self.shared().observers(), Error::invalid_name(name)),
            },
            has_key: false,
            policy,
            answers: Plainly,
            keep: Nothing,
        }
    }
}

impl<A, K> GuardedCall<A, K> {
    /// Adds a part to the key, after those that it has. Of a call with a [`token`](Self::token), whom that was issued to and
    /// for what is part of the key as well.
    ///
    /// A part that may be missing is a part all the same: calls with `None` there are equal, and get each other's result.
    /// Of an optional key, such as an `Option<IdempotencyKey>`, say [`when`](Self::when) the call has one.
    pub fn key<T: KeyPart + ?Sized>(mut self, part: &T) -> Self {
        self.call = self.call.part(part);
        self.has_key = true;
        self
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
    pub fn token<T, S>(
        mut self,
        token: &T,
        subject: &S,
        operation: impl Into<Cow<'static, str>>,
    ) -> Self
    where
        T: AsRef<str> + ?Sized,
        S: KeyPart + ?Sized,
    {
        let operation = Endpoint::try_new(operation).map_err(Error::invalid_name);
        self.call = self.call.redeeming(operation, token.as_ref(), subject);
        self
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
    pub fn payload<T: KeyPart + ?Sized>(mut self, part: &T) -> Self {
        self.call = self.call.payload(part);
        self
    }

    /// Sets how long the key stays taken after the call that ended it. There is no default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = ttl;
        self
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

    /// Makes the caller's error of ours, for error types that cannot implement `From<Error>`.
    pub fn error<E>(self, error: fn(Error) -> E) -> GuardedCall<A::On<Converted<E>>, K>
    where
        A: Based,
    {
        self.answering(|answers| answers.on(Converted(error)))
    }

    /// Sets what counts as a success. Default: `Ok`.
    pub fn success<R, F>(self, success: F) -> GuardedCall<Judged<A, F>, K>
    where
        F: Fn(&R) -> bool,
    {
        self.answering(|answers| Judged { answers, success })
    }

    /// Answers a duplicate of a running or done call, for which no result is kept.
    pub fn on_duplicate<R, F>(self, answer: F) -> GuardedCall<Answered<A, F>, K>
    where
        F: FnOnce(Duplicate) -> R,
    {
        self.answering(|answers| Answered { answers, answer })
    }

    fn answering<B>(self, answers: impl FnOnce(A) -> B) -> GuardedCall<B, K> {
        GuardedCall {
            call: self.call,
            has_key: self.has_key,
            policy: self.policy,
            answers: answers(self.answers),
            keep: self.keep,
        }
    }

    fn keeping<L>(self, keep: impl FnOnce(K) -> L) -> GuardedCall<A, L> {
        GuardedCall {
            call: self.call,
            has_key: self.has_key,
            policy: self.policy.replay(),
            answers: self.answers,
            keep: keep(self.keep),
        }
    }
}

impl<A> GuardedCall<A> {
    /// Stores the value of a success, and answers duplicates with it; not with [`Release::Always`].
    pub fn replay<R, Via>(self) -> GuardedCall<A, Values<R>>
    where
        R: Replay<Via>,
    {
        self.keeping(|Nothing| Values::new())
    }
}

impl<A, R> GuardedCall<A, Values<R>> {
    /// Stores chosen errors, too, and answers duplicates with them.
    pub fn replay_err<X>(self, chosen: fn(&X) -> bool) -> GuardedCall<A, ValuesAnd<R, X>>
    where
        R: Fallible<X>,
        X: Storable,
    {
        self.keeping(|values| values.and(chosen))
    }
}

impl<A, K> GuardedCall<A, K> {
    /// Runs `body` if no equal call has the key, and settles.
    ///
    /// # Errors
    ///
    /// What the return type makes of an [`Error`]: the reasons are those of the attribute.
    ///
    /// # Cancellation
    ///
    /// Dropped, the key is left as [`on_cancel`](Self::on_cancel) says.
    pub async fn run<R>(self, body: impl Future<Output = R>) -> R
    where
        A: Answers<R>,
        K: Keep<R>,
    {
        let Self {
            call,
            has_key,
            policy,
            answers,
            keep,
        } = self;
        let call = if has_key { call } else { call.without_key() };
        let mut held = match call.with(policy).claim().await {
            Ok(held) => held,
            Err(refusal) => return refused(answers, keep, refusal),
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
        let success = answers.is_success(&outcome);
        held.settle_with(keep, &outcome, success).await;
        outcome
    }

    /// As [`run`](Self::run), with a body that runs to its end, also when the caller drops the future: then in a task
    /// of its own, inside the caller's scope and span.
    pub async fn run_to_end<R>(self, body: impl Future<Output = R> + Send + 'static) -> R
    where
        A: Answers<R> + Clone + Send + 'static,
        K: Keep<R> + Send + 'static,
        R: Send + 'static,
    {
        let Self {
            call,
            has_key,
            policy,
            answers,
            keep,
        } = self;
        let call = if has_key { call } else { call.without_key() };
        let held = match call.with(policy).claim().await {
            Ok(held) => held,
            Err(refusal) => return refused(answers, keep, refusal),
        };
        let shared = Arc::clone(held.shared());
        let judge = answers.clone();
        let finish = Finish::new(shared, async move {
            let (held, outcome) = held.run(Box::pin(body)).await?;
            let success = judge.is_success(&outcome);
            held.settle_with(keep, &outcome, success).await;
            Ok(outcome)
        });
        match finish.await {
            Ok(outcome) => outcome,
            Err(error) => answers.refused(error),
        }
    }
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl<A, K> GuardedCall<A, K> {
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
    /// in its body. [`peek_tx`](Idempotency::peek_tx) looks at the row.
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
    /// A connection that is in no transaction is refused with [`Error::Misconfigured`]: its row
    /// would be committed without the work. Only transactions that were begun by sqlx (`begin`, `begin_with`) are seen.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). After an [`Error::Unavailable`] the transaction must be rolled back, also if the body ran;
    /// it may be run again. [`Error::LeaseLost`], which only a call with `replay` can find out: the row was gone from the
    /// transaction when the body had ended, because the body went on after a deadlock on MySQL or MariaDB, say. What it
    /// sent after that was committed by itself, so look at it before the transaction is run again.
    ///
    /// # Cancellation
    ///
    /// Dropped, the row may be in the transaction: roll it back. A connection to SQLite that is dropped while it waits keeps the
    /// `busy_timeout` of that wait, and is busy until it ends.
    pub async fn run_in<T, R>(
        self,
        tx: &mut T,
        body: impl AsyncFnOnce(&mut <T::Database as sqlx::Database>::Connection) -> R,
    ) -> R
    where
        T: AsConnection,
        A: Answers<R>,
        K: Keep<R>,
    {
        let Self {
            call,
            has_key,
            policy,
            answers,
            keep,
        } = self;
        let call = if has_key { call } else { call.without_key() };
        let mut held = match call.with(policy).claim_in(tx).await {
            Ok(held) => held,
            Err(refusal) => return refused(answers, keep, refusal),
        };
        let outcome = {
            // What it does before it returns its future is of the call, too.
            let mut body = pin!(async { body(tx.as_connection()).await });
            poll_fn(|context| held.poll_body(context, body.as_mut())).await
        };
        let success = answers.is_success(&outcome);
        match held.settle_with(keep, &outcome, success, tx).await {
            Ok(()) => outcome,
            Err(error) => answers.refused(error),
        }
    }
}

fn refused<R, A: Answers<R>, K: Keep<R>>(answers: A, keep: K, refusal: Refusal) -> R {
    match refusal.read(keep) {
        Ok(outcome) => outcome,
        Err(error) => answers.refused(error),
    }
}

impl<A, K> fmt::Debug for GuardedCall<A, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedCall")
            .field("call", &self.call)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// How a call of return type `R` says no, and what it calls a success.
pub trait Answers<R> {
    /// What a call returns whose body did not run.
    fn refused(self, error: Error) -> R;

    /// Whether the body did its work.
    fn is_success(&self, outcome: &R) -> bool;
}

/// As the return type says, by [`Outcome`].
#[derive(Debug, Clone, Copy)]
pub struct Plainly;

/// With an error that was made of ours.
#[derive(Debug)]
pub struct Converted<E>(fn(Error) -> E);

/// With a success that the caller defines.
#[derive(Debug, Clone, Copy)]
pub struct Judged<A, F> {
    answers: A,
    success: F,
}

/// With an answer of the caller's to a duplicate.
#[derive(Debug, Clone, Copy)]
pub struct Answered<A, F> {
    answers: A,
    answer: F,
}

/// Answers on some basis, which says how an error of ours becomes the caller's.
pub trait Based {
    /// The same on another basis.
    type On<B>;

    /// Replaces the basis.
    fn on<B>(self, basis: B) -> Self::On<B>;
}

impl Based for Plainly {
    type On<B> = B;

    fn on<B>(self, basis: B) -> B {
        basis
    }
}

impl<E> Based for Converted<E> {
    type On<B> = B;

    fn on<B>(self, basis: B) -> B {
        basis
    }
}

impl<A: Based, F> Based for Judged<A, F> {
    type On<B> = Judged<A::On<B>, F>;

    fn on<B>(self, basis: B) -> Self::On<B> {
        Judged {
            answers: self.answers.on(basis),
            success: self.success,
        }
    }
}

impl<A: Based, F> Based for Answered<A, F> {
    type On<B> = Answered<A::On<B>, F>;

    fn on<B>(self, basis: B) -> Self::On<B> {
        Answered {
            answers: self.answers.on(basis),
            answer: self.answer,
        }
    }
}

impl<R: Outcome> Answers<R> for Plainly {
    fn refused(self, error: Error) -> R {
        R::refused(error)
    }

    fn is_success(&self, outcome: &R) -> bool {
        outcome.is_success()
    }
}

impl<R: Fallible<E>, E> Answers<R> for Converted<E> {
    fn refused(self, error: Error) -> R {
        R::failed((self.0)(error))
    }

    fn is_success(&self, outcome: &R) -> bool {
        outcome.is_success()
    }
}

impl<R, A: Answers<R>, F: Fn(&R) -> bool> Answers<R> for Judged<A, F> {
    fn refused(self, error: Error) -> R {
        self.answers.refused(error)
    }

    fn is_success(&self, outcome: &R) -> bool {
        (self.success)(outcome)
    }
}

impl<R, A: Answers<R>, F: FnOnce(Duplicate) -> R> Answers<R> for Answered<A, F> {
    fn refused(self, error: Error) -> R {
        match error.into_duplicate() {
            Ok(duplicate) => (self.answer)(duplicate),
            Err(error) => self.answers.refused(error),
        }
    }

    fn is_success(&self, outcome: &R) -> bool {
        self.answers.is_success(outcome)
    }
}

impl<E> Clone for Converted<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Converted<E> {}
