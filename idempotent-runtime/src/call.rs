//! The protocol: claim, body, settle. What happens before the body is here.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::error::{Error, Failure, Site};
use crate::fingerprint::{Hasher, KeyPart};
use crate::held::{Guard, Held};
use crate::idempotency::Idempotency;
use crate::lease::Lease;
use crate::policy::{OnStoreError, Policy, Release};
use crate::record::Record;
use crate::settle::{self, Ending};
use crate::store::{Claim, StoreError, StoreErrorKind};
use crate::tries::{Sending, Tries, Try};

/// A call whose key is being put together.
#[must_use = "a call does nothing until it is claimed"]
pub struct Call(Result<Open, Error>);

struct Open {
    idempotency: Idempotency,
    endpoint: Endpoint,
    policy: Policy,
    hasher: Hasher,
}

impl Call {
    /// Begins a call of `endpoint` on the handle given, else on the [current](Idempotency::current) one.
    pub fn new(endpoint: Endpoint, policy: Policy, using: Option<&Idempotency>) -> Self {
        Self(match using.cloned().or_else(Idempotency::current) {
            Some(idempotency) => Ok(Open {
                hasher: idempotency.keying().hasher(),
                idempotency,
                endpoint,
                policy,
            }),
            None => Err(Error::NotInstalled(Failure::new(
                Site {
                    endpoint,
                    fingerprint: None,
                },
                "there is no `Idempotency`: call `Idempotency::install` once at the start, wrap the \
                 future in `Idempotency::scope`, or name one with `using = …`; \
                 a spawned task is outside of its spawner's scope",
                None,
            ))),
        })
    }

    /// Adds a part to the key.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(mut self, part: &T) -> Self {
        if let Ok(open) = &mut self.0
            && open.hasher.part(part).is_err()
        {
            self.0 = Err(Error::InvalidKey(Failure::new(
                Site {
                    endpoint: open.endpoint.clone(),
                    fingerprint: None,
                },
                "a part of the key could not be serialized, so the body did not run",
                None,
            )));
        }
        self
    }

    /// Claims the key: 1 round trip, or as many tries as fit into the handle's deadline.
    ///
    /// # Errors
    ///
    /// Why the body must not run.
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, the record that may have been put is removed, best effort.
    pub fn claim(self) -> impl Future<Output = Result<Held, Error>> + Send {
        let lease = self.0.and_then(Open::lease);
        async move {
            let lease = lease?;
            let guard = {
                let mut claiming = Claiming::new(&lease);
                let deadline = lease.idempotency.deadline();
                let mut first = Try::first(claiming.send(), deadline);
                let answer = (&mut first).await;
                let now = first.waited().then(Instant::now);
                // A try that timed out is over: what comes next is not to wait beside it.
                drop(first);
                match answer {
                    Ok(Claim::Claimed) if claiming.begun() > now => {
                        claiming.since = None;
                        Guard::Claim
                    }
                    // Seldom needed, so its state is not part of every caller's.
                    answer => Box::pin(claiming.go_on(answer)).await?,
                }
            };
            Ok(Held::new(lease, guard))
        }
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
    fn lease(self) -> Result<Arc<Lease>, Error> {
        let known = self.idempotency.known();
        let policy = known.effective(&self.endpoint, self.policy);
        let fingerprint = self.hasher.finish();
        let key = self.idempotency.key(&self.endpoint, &fingerprint);
        let site = Site {
            endpoint: self.endpoint,
            fingerprint: Some(fingerprint),
        };
        match policy.times() {
            Ok(times) => Ok(Lease::new(self.idempotency, site, key, policy, times)),
            Err(why) => Err(Error::InvalidPolicy(Failure::new(site, why, None))),
        }
    }
}

/// A claim that was sent.
struct Claiming<'a> {
    lease: &'a Arc<Lease>,
    /// The first send that may have been applied, unless its answer is conclusive.
    since: Option<Instant>,
}

impl<'a> Claiming<'a> {
    fn new(lease: &'a Arc<Lease>) -> Self {
        Self { lease, since: None }
    }

    fn send(&mut self) -> Sending<'a, Claim> {
        self.since.get_or_insert_with(Instant::now);
        let lease = self.lease;
        let store = lease.idempotency.store();
        store.claim(&lease.key, &lease.record, lease.times.expiry)
    }

    /// Begins the lease; returns when it ends, which must leave time for a body.
    fn begun(&self) -> Option<Instant> {
        self.since.map(|since| self.lease.begin(since))
    }

    /// Deals with any first answer but a plain yes.
    async fn go_on(mut self, mut answer: Result<Claim, StoreError>) -> Result<Guard, Error> {
        let lease = self.lease;
        let mut tries = Tries::after_the_first(lease.idempotency.deadline());
        let mut earlier = None;
        let trouble = loop {
            let error = match answer {
                Ok(Claim::Claimed) if self.begun() > Some(Instant::now()) => {
                    self.since = None;
                    return Ok(Guard::Claim);
                }
                Ok(Claim::Claimed) => {
                    let late = "the claim was answered only after its lease had ended";
                    break StoreError::new(StoreErrorKind::Unknown, late);
                }
                Ok(Claim::Taken(other)) => {
                    self.since = None;
                    return Err(taken(lease, &other));
                }
                Err(error) => error,
            };
            if error.kind() != StoreErrorKind::Unknown {
                self.since = earlier;
            }
            match error.kind() {
                StoreErrorKind::Misconfigured => {
                    return Err(Error::store(lease.site.clone(), error));
                }
                StoreErrorKind::Full => {
                    // A full store still reads: a duplicate gets its own answer.
                    let standing = lease.idempotency.store().get(&lease.key);
                    match tries.once(standing).await {
                        Ok(Some(entry)) if entry.value == lease.record => {
                            answer = Ok(Claim::Claimed);
                            continue;
                        }
                        Ok(Some(entry)) => return Err(taken(lease, &entry.value)),
                        Ok(None) | Err(_) => break error,
                    }
                }
                _ if !tries.again().await => break error,
                _ => {}
            }
            earlier = self.since;
            answer = tries.once(self.send()).await;
        };
        match lease.policy.on_store_error.unwrap_or_default() {
            OnStoreError::Refuse => Err(Error::store(lease.site.clone(), trouble)),
            OnStoreError::Run => Ok(self.unguarded(&trouble)),
        }
    }

    fn unguarded(mut self, trouble: &StoreError) -> Guard {
        tracing::error!(
            target: "idempotence",
            endpoint = %self.lease.site.endpoint,
            key = ?self.lease.site.fingerprint,
            error = trouble as &dyn StdError,
            "the store is unavailable; the body runs unguarded"
        );
        self.begun();
        let perhaps_put = self.since.take().is_some();
        Guard::None { perhaps_put }
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        // Its lease is begun, so that it is withdrawn for as long as it may stand in the way.
        if self.begun().is_some() {
            settle::hand_over(Arc::clone(self.lease), Ending::Withdraw);
        }
    }
}

fn taken(lease: &Lease, bytes: &[u8]) -> Error {
    let site = lease.site.clone();
    match Record::read(bytes) {
        Some(record) => Error::taken(site, &record, lease.policy.release != Release::Never),
        None => Error::ForeignRecord(Failure::new(
            site,
            "something stands under the key that this version did not write, so the body did not run; \
             choose another prefix, or remove the key",
            None,
        )),
    }
}
