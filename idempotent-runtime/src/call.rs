//! Builds calls and claims their keys, with the attribute and without it.

pub(crate) mod answers;
#[cfg(feature = "sql")]
pub(crate) mod begin;
pub(crate) mod builder;
pub(crate) mod finish;
mod further;
pub(crate) mod in_tx;
pub(crate) mod key_parts;
mod of_layer;
mod required;
mod run;
pub(crate) mod run_each;
#[cfg(feature = "sql")]
mod run_in;
mod token;
pub(crate) mod token_text;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::call::further::RareParts;
use crate::call::token_text::TokenText;
use crate::error::{Error, Failure, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Hasher, KeyPart};
use crate::observe::{Event, NO_OBSERVERS, Observers};
use crate::policy::claims::Claims;
use crate::policy::{OnStoreError, Policy};
use crate::protocol::claim::ClaimGuard;
use crate::protocol::context::CallContext;
use crate::protocol::follow::Following;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::redeem;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::StoreAttempt;
use crate::protocol::several::Several;
use crate::protocol::wait;
use crate::store::Claim;

/// A call whose key is not complete yet.
#[must_use = "a call does nothing until it is claimed"]
pub struct Call(Result<OpenCall, Error>);

struct OpenCall {
    /// Its key, its durations and its span are not known until the claim. It is here from the start, because it is large: the
    /// claim moves it once.
    context: CallContext,
    key: Hasher,
    /// The hash of the key in the table of calls in flight.
    hash: u64,
    /// Boxed, because hashers are large, and few calls have a payload or further keys.
    more: Option<Box<RareParts>>,
    has_token: bool,
    /// The token is the key.
    keyed_by_token: bool,
    /// The value of the option `when`, if the option is set.
    when: Option<bool>,
    /// The caller has an answer of its own for duplicates.
    answers_duplicates: bool,
    /// Why the key or the payload is invalid. A guarded call ends with this error.
    invalid_key: Option<Error>,
    /// Why the token is invalid. The claim emits this error as the end of the redemption.
    invalid_token: Option<Error>,
}

impl Call {
    /// Starts a call of `endpoint` on the handle `using`, else on the [current](Idempotency::current) handle.
    pub fn new(endpoint: Endpoint, policy: Policy, using: Option<&Idempotency>) -> Self {
        let handle = using.cloned().or_else(Idempotency::current);
        Self(match handle.map(Idempotency::into_shared) {
            Some(shared) => Ok(OpenCall {
                key: shared.keying().hasher(),
                hash: 0,
                more: None,
                has_token: false,
                keyed_by_token: false,
                when: None,
                answers_duplicates: false,
                invalid_key: None,
                invalid_token: None,
                context: CallContext::new(shared, endpoint, policy),
            }),
            None => Err(refused(
                &NO_OBSERVERS,
                Error::NotInstalled(Failure::new(
                    Site::without_key(endpoint),
                    "there is no `Idempotency`, so the body did not run; call `Idempotency::install` once at the start, wrap \
                     the future in `Idempotency::scope` (a spawned task is outside of it), or name a handle with `using = …`",
                    None,
                )),
            )),
        })
    }

    /// A call that is already refused.
    pub(crate) fn refused(observers: &Observers, error: Error) -> Self {
        Self(Err(refused(observers, error)))
    }

    /// Sets whether the call is guarded. If not, its body runs without a key, and nothing is sent to the store.
    pub fn when(&mut self, guarded: bool) {
        if let Ok(open) = &mut self.0 {
            open.when = Some(guarded);
        }
    }

    /// Notes that the caller has an answer of its own for duplicates.
    pub(crate) fn answers_duplicates(&mut self) {
        if let Ok(open) = &mut self.0 {
            open.answers_duplicates = true;
        }
    }

    /// Replaces the policy.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        if let Ok(open) = &mut self.0 {
            open.context.policy = policy;
        }
    }

    /// Adds a part to the key.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(&mut self, part: &T) {
        if let Ok(open) = &mut self.0
            && open.key.part(part).is_err()
        {
            open.set_invalid_key("a part of the key could not be serialized, so the body did not run; use a part whose `Serialize` succeeds");
        }
    }

    /// Adds a part to the payload.
    pub fn payload<T: KeyPart + ?Sized>(&mut self, part: &T) {
        if let Ok(open) = &mut self.0
            && open.payload_hasher().part(part).is_err()
        {
            open.set_invalid_key(
                "a part of the payload could not be serialized, so the body did not run; use a part whose `Serialize` succeeds",
            );
        }
    }

    /// Redeems a token after the call has its key: a token that was issued to `subject` for `operation`.
    pub fn token<T: TokenText + ?Sized, S: KeyPart + ?Sized>(
        &mut self,
        token: &T,
        subject: &S,
        operation: &'static str,
    ) {
        self.redeem(Ok(Endpoint::named(operation)), token.text(), subject);
    }

    /// Begins a further key. Its parts follow.
    pub fn also(&mut self) {
        if let Ok(open) = &mut self.0 {
            let keying = open.context.shared.keying();
            open.more.get_or_insert_default().begin_key(keying);
        }
    }

    /// Adds a part to the last further key.
    pub fn also_part<T: KeyPart + ?Sized>(&mut self, part: &T) {
        if let Ok(open) = &mut self.0
            && let Some(key) = open.more.get_or_insert_default().last_key()
            && key.part(part).is_err()
        {
            open.set_invalid_key("a part of a further key could not be serialized, so the body did not run; use a part whose `Serialize` succeeds");
        }
    }

    /// The same call with its row in its caller's transaction.
    pub(crate) fn in_tx(mut self) -> Result<CallContext, Error> {
        if let Ok(open) = &mut self.0 {
            open.context.policy.tx = true;
        }
        match self.0 {
            Ok(mut open) => open.complete().map(|()| open.context),
            Err(error) => Err(error),
        }
    }

    /// Claims the key: 1 round trip, or as many attempts as fit into the handle's deadline. A duplicate of a call that runs in
    /// this process costs none. A duplicate that waits polls the store. A token costs 1 more round trip, after the claim.
    ///
    /// # Errors
    ///
    /// Why the body must not run.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped before the store has answered, a background task tries to withdraw the claim and to give the
    /// token back.
    pub fn claim(self) -> impl Future<Output = Result<Held, Refusal>> + Send {
        let start = self.start();
        async move {
            let lease = match start {
                Start::One(lease) => lease,
                // Boxed, because it is seldom needed, as below.
                Start::Several(keys) => return Box::pin(keys.claim()).await,
                Start::Permit(lease) => return Box::pin(wait::claim_permit(lease)).await,
                Start::Refused(error) => return Err(error.into()),
            };
            if !lease.call().policy.is_guarded() {
                return Ok(Held::bypassed(lease).await);
            }
            if let Some(leader) = lease.enter() {
                let may_ask = Following::new(lease, leader).await?;
                return Box::pin(wait::ask(may_ask)).await;
            }
            let guard = {
                let mut claim = ClaimGuard::new(&lease);
                // Unlike a `match`, this does not store the immediate answer in the future while the other answer is awaited.
                let (answer, is_immediate) = if let Some(answer) = claim.send_now() {
                    (answer, true)
                } else {
                    let deadline = lease.call().shared.deadline();
                    let mut first = StoreAttempt::first(claim.send(), deadline);
                    let answer = (&mut first).await;
                    // Ends an attempt that timed out before the next attempt starts.
                    (answer, !first.has_waited())
                };
                let guard = match answer {
                    Ok(Claim::Claimed) => claim.start_lease(is_immediate),
                    _ => None,
                };
                if let Some(guard) = guard {
                    guard
                } else {
                    let answer = match wait::refuse_now(&lease, answer) {
                        Ok(refusal) => {
                            claim.end_refused(&refusal);
                            return Err(refusal);
                        }
                        Err(answer) => answer,
                    };
                    // Boxed, because it is seldom needed: its state is then not part of every caller's future.
                    let first_sent = claim.defuse();
                    drop(claim);
                    return Box::pin(wait::contend(lease, first_sent, answer)).await;
                }
            };
            let held = Held::new(lease, guard);
            if held.has_token() {
                return Ok(Box::pin(redeem::redeem(held)).await?);
            }
            Ok(held)
        }
    }
}

/// How a complete call starts.
enum Start {
    One(Arc<Lease>),
    Several(Box<Several>),
    Permit(Arc<Lease>),
    Refused(Error),
}

impl Call {
    /// Completes the call.
    #[inline]
    fn start(mut self) -> Start {
        if let Ok(open) = &mut self.0
            && let Err(error) = open.complete()
        {
            self.0 = Err(error);
        }
        match self.0 {
            Ok(OpenCall { context, hash, .. }) if context.policy.has_one_key() => {
                Start::One(Lease::new(context, hash))
            }
            Ok(open) if open.context.policy.has_several_keys() => {
                let more = open.more.map(|more| *more).unwrap_or_default();
                Start::Several(Box::new(more.several(open.context)))
            }
            Ok(OpenCall { context, hash, .. }) => Start::Permit(Lease::new(context, hash)),
            Err(error) => Start::Refused(error),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(open) => write!(f, "Call({:?})", open.context.site.endpoint),
            Err(error) => write!(f, "Call({error:?})"),
        }
    }
}

impl OpenCall {
    fn payload_hasher(&mut self) -> &mut Hasher {
        let keying = self.context.shared.keying();
        self.more.get_or_insert_default().payload(keying)
    }

    fn set_invalid_key(&mut self, what: &'static str) {
        let site = self.context.site.clone();
        let error = || Error::InvalidKey(Failure::new(site, what, None));
        self.invalid_key.get_or_insert_with(error);
    }

    /// Checks the call, and completes its context.
    fn complete(&mut self) -> Result<(), Error> {
        let completed = self.check().and_then(|()| match self.when {
            Some(false) => {
                self.context.policy.bypassed = true;
                Ok(())
            }
            _ => self.complete_guarded(),
        });
        completed.map_err(|error| refused(self.context.shared.observers(), error))?;
        self.context.begin();
        Ok(())
    }

    /// Checks the options that do not depend on the policy.
    fn check(&mut self) -> Result<(), Error> {
        let context = &self.context;
        if self.when.is_some() && self.has_token {
            let why = "`when` does not go with a token: with `when = false` the body would run without redeeming the token";
            let site = context.site.clone();
            return Err(Error::InvalidPolicy(Failure::new(site, why, None)));
        }
        if self.when == Some(false) {
            return Ok(());
        }
        if let Some(rejected) = self.invalid_token.take() {
            context.shared.observers().emit_refused_in_call(&rejected);
            return Err(rejected.at(&context.site));
        }
        self.invalid_key.take().map_or(Ok(()), Err)
    }

    /// Sets the policy, the durations and the digests of a guarded call.
    fn complete_guarded(&mut self) -> Result<(), Error> {
        let context = &mut self.context;
        let (shared, policy) = (&context.shared, &mut context.policy);
        let endpoint = &context.site.endpoint;
        let has_token = context.token.is_some();
        policy.token = has_token;
        let has_permits = policy.most_holders().is_some();
        if self.more.as_ref().is_some_and(|more| more.has_keys()) {
            policy.claims = Claims::Keys;
        }
        let times = shared.known_endpoints().enter(endpoint, policy);
        if has_token || policy.has_several_keys() {
            // Without the store a token cannot be redeemed, and of several keys some could be taken, so no body starts.
            policy.on_lease_lost = Some(policy.when_lost());
            policy.on_store_error = Some(OnStoreError::Refuse);
        }
        let times = policy.contradiction().map_or(times, Err);
        let times = match self.more {
            Some(_) if has_permits => Err("`permits` needs one key and no payload"),
            _ if has_permits && self.answers_duplicates => Err(
                "`permits` does not go with `on_duplicate`: a call that lacks a permit is no duplicate",
            ),
            _ => times,
        };
        let fingerprint = match (&context.token, context.site.fingerprint) {
            (Some(token), _) => token.key(&mut self.key, !self.keyed_by_token),
            // A whole payload has ended the key.
            (None, Some(ended)) => ended,
            (None, None) => self.key.end(),
        };
        if let Some(more) = &mut self.more {
            context.payload = more.end_payload(shared.keying(), &fingerprint);
        }
        context.site.fingerprint = Some(fingerprint);
        self.hash = shared.in_flight_table().hash(&context.site);
        let invalid = |why| {
            let site = context.site.clone();
            Error::InvalidPolicy(Failure::new(site, why, None))
        };
        context.times = times.map_err(invalid)?;
        Ok(())
    }
}

/// Emits the end of a call that is refused before its claim.
fn refused(observers: &Observers, error: Error) -> Error {
    observers.emit(&Event::refused(&error));
    error
}
