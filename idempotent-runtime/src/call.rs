//! The front doors of the protocol: how a call is put together and claimed, with the attribute and without it.

pub(crate) mod answers;
pub(crate) mod builder;
pub(crate) mod finish;
pub(crate) mod in_tx;
pub(crate) mod key_parts;
mod run;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod run_in;
pub(crate) mod token_text;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::call::token_text::TokenText;
use crate::error::{Error, Failure, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Hasher, KeyPart};
use crate::observe::{Event, NO_OBSERVERS, Observers};
use crate::policy::times::Times;
use crate::policy::{OnStoreError, Policy, Release};
use crate::protocol::claim::ClaimGuard;
use crate::protocol::context::CallContext;
use crate::protocol::held::{Guard, Held};
use crate::protocol::lease::Lease;
use crate::protocol::redeem;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::Attempt;
use crate::protocol::shared::Shared;
use crate::protocol::token::of_call::CallToken;
use crate::protocol::wait;
use crate::store::Claim;

/// A call whose key is being put together.
#[must_use = "a call does nothing until it is claimed"]
pub struct Call(Result<Open, Error>);

struct Open {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    policy: Policy,
    key: Hasher,
    payload: Option<Hasher>,
    has_token: bool,
    token: Option<Arc<CallToken>>,
    /// It names no parts of its key, because its token is the key.
    keyed: bool,
    /// What the option `when` says, if it is there.
    when: Option<bool>,
    /// Why the key or the token is none: the end of the call, unless that is not guarded.
    broken: Option<Error>,
    /// What is wrong with its token. An event tells of it when the call is claimed, as the end of its redemption.
    rejected: Option<Error>,
}

impl Call {
    /// Begins a call of `endpoint` on the handle given, else on the [current](Idempotency::current) one.
    pub fn new(endpoint: Endpoint, policy: Policy, using: Option<&Idempotency>) -> Self {
        let handle = using.cloned().or_else(Idempotency::current);
        Self(match handle.map(Idempotency::into_shared) {
            Some(shared) => Ok(Open {
                key: shared.keying().hasher(),
                payload: None,
                has_token: false,
                token: None,
                keyed: false,
                when: None,
                broken: None,
                rejected: None,
                shared,
                endpoint,
                policy,
            }),
            None => Err(refused(
                &NO_OBSERVERS,
                Error::NotInstalled(Failure::new(
                    Site::without_key(endpoint),
                    "there is no `Idempotency`: call `Idempotency::install` once at the start, wrap the \
                     future in `Idempotency::scope`, or name one with `using = …`; \
                     a spawned task is outside of its spawner's scope",
                    None,
                )),
            )),
        })
    }

    /// A call that cannot be made.
    pub(crate) fn refused(observers: &Observers, error: Error) -> Self {
        Self(Err(refused(observers, error)))
    }

    /// Says whether the call is guarded. If not, its body runs without a key, and the store is not asked.
    pub fn when(mut self, guarded: bool) -> Self {
        if let Ok(open) = &mut self.0 {
            open.when = Some(guarded);
        }
        self
    }

    /// Goes on with another policy.
    pub(crate) fn with(mut self, policy: Policy) -> Self {
        if let Ok(open) = &mut self.0 {
            open.policy = policy;
        }
        self
    }

    /// Adds a part to the key.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(mut self, part: &T) -> Self {
        if let Ok(open) = &mut self.0
            && open.key.part(part).is_err()
        {
            open.broken_as("a part of the key could not be serialized, so the body did not run");
        }
        self
    }

    /// Adds a part to the payload.
    pub fn payload<T: KeyPart + ?Sized>(mut self, part: &T) -> Self {
        if let Ok(open) = &mut self.0
            && open.payload_hasher().part(part).is_err()
        {
            open.broken_as(
                "a part of the payload could not be serialized, so the body did not run",
            );
        }
        self
    }

    /// Has the call redeem a token, once it has the key: one that was issued to `subject` for `operation`.
    pub fn token<T: TokenText + ?Sized, S: KeyPart + ?Sized>(
        self,
        token: &T,
        subject: &S,
        operation: &'static str,
    ) -> Self {
        self.redeeming(Ok(Endpoint::named(operation)), token.text(), subject)
    }

    /// Has the token be the key, which then is a digest of it, of what it was issued for and to whom.
    pub fn keyed(mut self) -> Self {
        if let Ok(open) = &mut self.0 {
            open.keyed = true;
        }
        self
    }

    /// Has the call redeem a token, once it has the key. What it was issued for and to whom becomes part of the key.
    pub(crate) fn redeeming<S: KeyPart + ?Sized>(
        mut self,
        operation: Result<Endpoint, Error>,
        token: &str,
        subject: &S,
    ) -> Self {
        if let Ok(open) = &mut self.0 {
            if std::mem::replace(&mut open.has_token, true) {
                open.broken_as("it has two tokens, so the body did not run: name one");
                return self;
            }
            let subject = |hasher: &mut Hasher| hasher.part(subject);
            let token = operation
                .and_then(|operation| CallToken::new(&open.shared, &operation, token, subject));
            match token {
                Ok(token) => open.token = Some(Arc::new(token)),
                Err(error) if open.broken.is_none() => open.rejected = Some(error),
                Err(_) => {}
            }
        }
        self
    }

    /// Claims the key: 1 round trip, or as many tries as fit into the handle's deadline. A duplicate of a call that
    /// runs in this process costs none, and one that waits as many as its patience allows. A token is redeemed after
    /// that, in 1 round trip more.
    ///
    /// # Errors
    ///
    /// Why the body must not run.
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, the record that may have been put is removed, best effort, and the token
    /// given back.
    pub fn claim(self) -> impl Future<Output = Result<Held, Refusal>> + Send {
        let lease = self.0.and_then(Open::made).map(Lease::new);
        async move {
            let lease = lease?;
            if lease.call.policy.bypassed {
                return Ok(Held::new(lease, Guard::Bypassed));
            }
            if let Some(leader) = lease.enter() {
                return Box::pin(wait::follow(lease, leader)).await;
            }
            let guard = {
                let mut claim = ClaimGuard::new(&lease);
                let deadline = lease.call.shared.deadline();
                let mut first = Attempt::first(claim.send(), deadline);
                let answer = (&mut first).await;
                let immediate = !first.has_waited();
                // Ends an attempt that timed out before the next one starts.
                drop(first);
                let guard = match answer {
                    Ok(Claim::Claimed) => claim.start_lease(immediate),
                    _ => None,
                };
                match (guard, answer) {
                    (Some(guard), _) => guard,
                    (None, Ok(Claim::Taken(record))) if lease.call.policy.patience().is_none() => {
                        claim.defuse();
                        return Err(wait::refuse(&lease, record));
                    }
                    // Seldom needed, so its state is not part of every caller's future.
                    (None, answer) => {
                        let first_sent = claim.defuse();
                        drop(claim);
                        return Box::pin(wait::contend(lease, first_sent, answer)).await;
                    }
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

impl Call {
    /// The call as one that its caller's transaction holds.
    pub(crate) fn in_tx(self) -> Result<CallContext, Error> {
        self.0.and_then(|mut open| {
            open.policy.tx = true;
            open.made()
        })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(open) => f.debug_tuple("Call").field(&open.endpoint).finish(),
            Err(error) => f.debug_tuple("Call").field(error).finish(),
        }
    }
}

impl Open {
    fn payload_hasher(&mut self) -> &mut Hasher {
        let keying = self.shared.keying();
        self.payload.get_or_insert_with(|| keying.hasher())
    }

    fn broken_as(&mut self, what: &'static str) {
        let site = Site::without_key(self.endpoint.clone());
        let error = || Error::InvalidKey(Failure::new(site, what, None));
        self.broken.get_or_insert_with(error);
    }

    /// The call as it is made now.
    fn made(mut self) -> Result<CallContext, Error> {
        let error = match self.when {
            Some(_) if self.has_token => {
                let site = Site::without_key(self.endpoint);
                let why = "`when` does not go with a token: with `when = false` the body would run without redeeming the token";
                Error::InvalidPolicy(Failure::new(site, why, None))
            }
            Some(false) => {
                let site = Site::without_key(self.endpoint);
                let policy = Policy {
                    bypassed: true,
                    ..self.policy
                };
                let times = Times::default();
                return Ok(CallContext::new(self.shared, site, policy, times));
            }
            _ => match (self.rejected.take(), self.broken.take()) {
                (Some(rejected), _) => {
                    self.shared.observers().emit_refused(&rejected);
                    rejected.at(&Site::without_key(self.endpoint))
                }
                (None, Some(error)) => error,
                (None, None) => return self.claimable(),
            },
        };
        Err(refused(self.shared.observers(), error))
    }

    fn claimable(self) -> Result<CallContext, Error> {
        let known = self.shared.known_endpoints();
        let mut policy = known.enter(&self.endpoint, self.policy);
        if self.token.is_some() {
            // A token cannot be checked while the store is away; a body that has begun has been.
            policy.on_lease_lost = Some(policy.when_lost());
            policy.on_store_error = Some(OnStoreError::Refuse);
        }
        let times = times(&policy, self.token.is_some());
        let fingerprint = match &self.token {
            Some(token) => token.key(self.key, !self.keyed),
            None => self.key.finish(),
        };
        let payload = self.payload.map(|payload| {
            // With the key before it, equal payloads of two keys cannot be told to be equal. Strings can be encoded.
            let mut hasher = self.shared.keying().hasher();
            let _ = hasher.part(&fingerprint.to_string());
            let _ = hasher.part(&payload.finish().to_string());
            hasher.finish()
        });
        let key = if policy.tx {
            self.shared.key_in_tx(&self.endpoint, &fingerprint)
        } else {
            self.shared.key(&self.endpoint, &fingerprint)
        };
        let site = Site {
            endpoint: self.endpoint,
            fingerprint: Some(fingerprint),
        };
        match times {
            Ok(times) => Ok(CallContext {
                key,
                payload,
                token: self.token,
                ..CallContext::new(self.shared, site, policy, times)
            }),
            Err(why) => {
                let error = Error::InvalidPolicy(Failure::new(site, why, None));
                Err(refused(self.shared.observers(), error))
            }
        }
    }
}

/// The durations of a policy, or why it cannot be followed.
fn times(policy: &Policy, has_token: bool) -> Result<Times, &'static str> {
    if has_token && policy.tx {
        return Err(
            "`tx` does not go with a token, because the transaction may be rolled back after the token is used: redeem the token outside",
        );
    }
    if policy.give_back && !has_token {
        return Err("`give_back` needs a token");
    }
    if policy.give_back && policy.release == Release::Never {
        return Err("`give_back` does not go with `release = false`, which keeps the key taken");
    }
    policy.times()
}

/// Tells of a call that ended before it was made.
fn refused(observers: &Observers, error: Error) -> Error {
    observers.emit(&Event::refused(&error));
    error
}
