//! What a guarded body may know about its call.

mod steps;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Failure};
use crate::key::downstream;
use crate::policy::Release;
use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::store::Fence;
use crate::world;

/// What a guarded body may know about its call, and the keys that it sends to other services.
///
/// A body gets it from the option `context` of the attribute, from [`GuardedCall::run_with`](crate::GuardedCall::run_with), or,
/// as the handler of a request that the HTTP layer guards, from the extensions of the request:
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::IdempotencyContext;
///
/// fn log<B>(request: &http::Request<B>) {
///     if let Some(context) = request.extensions().get::<IdempotencyContext>() {
///         println!("{} {}", context.endpoint(), context.key());
///     }
/// }
/// ```
///
/// A request that the layer does not guard has no such extension.
///
/// The type parameter says whether the key of the call names one intent: [`OneIntent`] or [`AnyIntent`]. Only the first has a
/// [`downstream_key`](Self::downstream_key). [`Fenced`] around it says that the call has a [`fence`](Self::fence).
pub struct IdempotencyContext<I = OneIntent> {
    call: ContextCall,
    /// The random bits of a call without a key.
    bits: Option<u128>,
    intent: PhantomData<fn() -> I>,
}

/// The key of the call names one intent: all calls with this key want the same effect, and want it once.
///
/// So it is for calls of the attribute without `release = true`, and for requests of the HTTP layer.
#[derive(Debug, Clone, Copy)]
pub enum OneIntent {}

/// Several calls with one key may want the effect several times: calls of the attribute with `release = true`, and calls of
/// the builder, whose release is known only when they run.
#[derive(Debug, Clone, Copy)]
pub enum AnyIntent {}

/// The call has the option `fence`. `I` says whether its key names one intent.
#[derive(Debug, Clone, Copy)]
pub struct Fenced<I>(PhantomData<fn() -> I>);

/// A call with the option `fence`.
#[diagnostic::on_unimplemented(
    message = "`fence` needs a call with the option `fence`",
    label = "the claim of this call has no fence",
    note = "write `fence = true` in the attribute",
    note = "in a call of the builder the option is known only when it runs: call `try_fence`"
)]
pub trait HasFence {}

impl<I> HasFence for Fenced<I> {}

/// A call whose key names one intent.
#[diagnostic::on_unimplemented(
    message = "`downstream_key` needs a call whose key names one intent",
    label = "another call with this key may be a new intent, and would send the same downstream key",
    note = "with `release = true` a later equal call runs again, for example a second payment on purpose: leave `release` out",
    note = "in a call of the builder the release is known only when it runs: call `try_downstream_key`"
)]
pub trait NamesOneIntent {}

impl NamesOneIntent for OneIntent {}

impl<I: NamesOneIntent> NamesOneIntent for Fenced<I> {}

/// The call of a context.
#[derive(Clone)]
enum ContextCall {
    /// Its claim has the key.
    Claim(Arc<Lease>),
    /// No claim has the key.
    Unguarded(Arc<Lease>),
    /// Its row is in the caller's transaction.
    Row(Arc<CallContext>),
}

impl ContextCall {
    fn call(&self) -> &CallContext {
        match self {
            Self::Claim(lease) | Self::Unguarded(lease) => lease.call(),
            Self::Row(call) => call,
        }
    }
}

impl<I> IdempotencyContext<I> {
    /// The context of a call that has the key if `is_claimed`.
    pub(crate) fn of_lease(lease: &Arc<Lease>, is_claimed: bool) -> Self {
        let lease = Arc::clone(lease);
        Self::new(if is_claimed {
            ContextCall::Claim(lease)
        } else {
            ContextCall::Unguarded(lease)
        })
    }

    /// The context of a call whose row is in its caller's transaction.
    pub(crate) fn of_row(call: &Arc<CallContext>) -> Self {
        Self::new(ContextCall::Row(Arc::clone(call)))
    }

    fn new(call: ContextCall) -> Self {
        let has_key = call.call().site.fingerprint.is_some();
        Self {
            bits: (!has_key).then(world::random_bits),
            call,
            intent: PhantomData,
        }
    }

    /// The call, if its claim had the key when the body began.
    pub(crate) fn claim(&self) -> Option<&CallContext> {
        match &self.call {
            ContextCall::Claim(lease) => Some(lease.call()),
            ContextCall::Unguarded(_) | ContextCall::Row(_) => None,
        }
    }

    /// The endpoint, as the events name it: `orders.pay`, or `POST /orders/{id}/pay` for a request.
    pub fn endpoint(&self) -> &str {
        self.call.call().site.endpoint.as_str()
    }

    /// The digest of the key, in hexadecimal digits, as the store and the events name it. It does not show the key. Empty if the
    /// call has no key, because its `when` was false.
    pub fn key(&self) -> String {
        let digest = self.call.call().site.fingerprint.as_ref();
        digest.map(ToString::to_string).unwrap_or_default()
    }

    /// Whether the call had its key when the body began. False if `when` was false, the setting `disabled` is true, or the store
    /// was unavailable with `on_store_error = "run"`: an equal call may then run at the same time.
    pub fn is_guarded(&self) -> bool {
        match &self.call {
            ContextCall::Claim(_) => true,
            ContextCall::Unguarded(_) => false,
            ContextCall::Row(call) => call.policy.is_guarded(),
        }
    }

    /// The time until the lease of the call ends if it is not renewed any more; zero after its end. While the body runs and
    /// `renew` allows it, the lease is renewed, and this time grows again. Sends nothing to the store.
    ///
    /// `None` if there is no lease: the call is not [guarded](Self::is_guarded), or its row is in the caller's transaction.
    pub fn lease_remaining(&self) -> Option<Duration> {
        match &self.call {
            ContextCall::Claim(lease) => {
                let first = lease.all().map(|lease| lease.good_until()).min()?;
                Some(first.saturating_duration_since(Instant::now()))
            }
            ContextCall::Unguarded(_) | ContextCall::Row(_) => None,
        }
    }

    /// The number of this run among the runs of its key, with the option `fence`: larger than the number of every run before, in
    /// any process. A resource that stores the number of its last writer, and refuses a smaller number, is safe from a run that
    /// was paused for longer than its lease and then continues. Positive, and less than 2⁵³.
    ///
    /// A number orders writes. It does not make them happen once: if two runs write in their order, both are accepted. Compare
    /// numbers of one key only.
    ///
    /// The number is the last one and 1, or the microseconds of the store's clock if they are more. (On MySQL, MariaDB and your own store
    /// it is the clock of the process.) [`peek`](crate::Idempotency::peek) shows the last number while the key is taken. The number is
    /// stored for a day after the last run, or for the `ttl` if that is longer.
    ///
    /// 0 if the call is not [guarded](Self::is_guarded): smaller than the number of every guarded run. But while the setting
    /// `disabled` is true, a call still draws a number, and is 0 only if the store does not answer.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Fenced, IdempotencyContext};
    ///
    /// fn update(cx: &IdempotencyContext<Fenced<idempotence::OneIntent>>) -> (&'static str, i64) {
    ///     ("UPDATE orders SET state = 'packed', fence = $1 WHERE id = 7 AND fence <= $1", cx.fence())
    /// }
    /// ```
    pub fn fence(&self) -> i64
    where
        I: HasFence,
    {
        self.number()
    }

    /// Does the same as [`fence`](Self::fence), for a call whose options are known only when it runs.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] without the option `fence`.
    pub fn try_fence(&self) -> Result<i64, Error> {
        let call = self.call.call();
        if !call.policy.fence {
            let what = "it has no fence; call `fence` on the builder, or write `fence = true` in the attribute";
            let site = call.site.clone();
            return Err(Error::InvalidPolicy(Failure::new(site, what, None)));
        }
        Ok(self.number())
    }

    /// How many runs of the key began since its last success, this run included: 1 for the first run, 2 for the next run after
    /// one that failed, died or was dropped.
    ///
    /// A call that is refused before its body, as by a used token, is no run.
    ///
    /// `None` if nothing counts the runs: the call has no option `fence`, or is not [guarded](Self::is_guarded). The count is
    /// forgotten with the number of the fence, a day after the last run or after its `ttl`, whichever is longer.
    pub fn attempt(&self) -> Option<u32> {
        self.known_fence().map(|fence| fence.attempt)
    }

    /// Whether this call took over from a run that never ended: its process died, its future was dropped, its body panicked, or it lost
    /// its lease. What that run did is unknown, so check it before you repeat it.
    ///
    /// A run that ended is also reported if its process died before it noted this for the fence, if the store did not accept the
    /// note, or if a late request of that run claimed the key again. So is a run that never began: on MySQL, MariaDB and stores
    /// without [`claim_fenced`](crate::Store::claim_fenced) of their own, a claim that has lost its key may draw its number late. A
    /// run that died is always reported, while its number is stored.
    ///
    /// `None` as for [`attempt`](Self::attempt).
    pub fn took_over(&self) -> Option<bool> {
        self.known_fence().map(|fence| fence.took_over)
    }

    fn number(&self) -> i64 {
        let fence = match &self.call {
            ContextCall::Unguarded(lease) if lease.call().policy.draws_unguarded() => {
                lease.claim().fence.get().copied()
            }
            _ => self.known_fence(),
        };
        fence.map_or(0, |fence| fence.number)
    }

    fn known_fence(&self) -> Option<Fence> {
        match &self.call {
            ContextCall::Claim(lease) => lease.claim().fence.get().copied(),
            ContextCall::Unguarded(_) | ContextCall::Row(_) => None,
        }
    }

    /// A key for a request that the body sends to another service, such as the `Idempotency-Key` of a payment. `name` says which
    /// request it is: `"stripe.charge"`.
    ///
    /// The key is made of the call's own prefix, endpoint and key, and of `name`. So a body that runs again for the same key, in
    /// any process and after any crash, sends the same key, and the other service can recognize the repetition. Requests of one
    /// body need different names.
    ///
    /// **The key of the call must name one intent**: an order number or a request id of the client, not a user and an amount. If
    /// an honest second payment has the key of the first, it sends the same downstream key after the `ttl` of the call, and the
    /// other service may answer with the first payment. The other service must remember the key for longer than the `ttl` of the call and
    /// its retries last.
    ///
    /// It has the form of a UUID: version 8 of RFC 9562, section 5.8. It does not show the key of the call. But without a
    /// [`secret`](crate::Builder::secret) a person who guesses that key can compute the downstream key. Another prefix, another name of the
    /// endpoint, another digest and another secret make other keys.
    ///
    /// A call whose `when` is false has no key. Its downstream keys are random, and the same for the whole call.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::IdempotencyContext;
    ///
    /// fn headers(cx: &IdempotencyContext) -> [(&'static str, String); 1] {
    ///     [("Idempotency-Key", cx.downstream_key("stripe.charge"))]
    /// }
    /// ```
    pub fn downstream_key(&self, name: &str) -> String
    where
        I: NamesOneIntent,
    {
        self.make_downstream_key(name)
    }

    /// Does the same as [`downstream_key`](Self::downstream_key), for a call whose release is known only when it runs.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] with [`Release::Always`]: a later call with this key may be a new intent, for example a second
    /// payment on purpose, and would send the same key.
    pub fn try_downstream_key(&self, name: &str) -> Result<String, Error> {
        let call = self.call.call();
        if call.policy.release == Release::Always {
            let what = "with `release = true` there is no downstream key, because a later call with this key may be a new intent and \
                        would send the same one; use another release";
            return Err(Error::InvalidPolicy(Failure::new(
                call.site.clone(),
                what,
                None,
            )));
        }
        Ok(self.make_downstream_key(name))
    }

    fn make_downstream_key(&self, name: &str) -> String {
        let CallContext { shared, site, .. } = self.call.call();
        match (&site.fingerprint, self.bits) {
            (Some(key), _) => {
                downstream::downstream_key(shared.prefix(), &site.endpoint, key, name)
            }
            (None, bits) => downstream::downstream_key_without_key(bits.unwrap_or_default(), name),
        }
    }
}

impl<I> Clone for IdempotencyContext<I> {
    fn clone(&self) -> Self {
        Self {
            call: self.call.clone(),
            bits: self.bits,
            intent: PhantomData,
        }
    }
}

impl<I> fmt::Debug for IdempotencyContext<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyContext")
            .field("site", &self.call.call().site)
            .finish_non_exhaustive()
    }
}
