//! One-time tokens: issued to a subject for an operation, redeemed once.

#[cfg(test)]
mod properties;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Failure, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::observe::EventKind;
use crate::protocol::retry;
use crate::protocol::shared::Shared;
use crate::protocol::token::redemption::{Redeemed, Redemption};
use crate::protocol::token::{Token, binding, locate};
use crate::record::token as record;
use crate::store::Claim;

/// One-time tokens on the store of a handle. Cheap to clone.
///
/// A page fetches a token before it shows its form, and sends it back with the form: the first submit is accepted, every
/// other one is refused. A token is bound to a subject (the user, the session) and to an operation, so that nobody can
/// redeem another's. Each is independent of all others: a user with two tabs has two of them, and both are good.
///
/// The store holds a digest of the token, the operation and the subject, never the token: who reads the store cannot
/// redeem what stands there.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotence::Error> {
/// use std::time::Duration;
/// use idempotence::{Error, Idempotency, MemoryStore};
///
/// let tokens = Idempotency::new(MemoryStore::new()).tokens();
/// let user = 42;
/// let token = tokens.issue(&user, "orders.submit", Duration::from_mins(30)).await?;
///
/// let thief = tokens.redeem(token.as_str(), &43, "orders.submit").await;
/// assert!(matches!(thief, Err(Error::TokenUnknown(_))));
///
/// tokens.redeem(token.as_str(), &user, "orders.submit").await?;
/// let again = tokens.redeem(token.as_str(), &user, "orders.submit").await;
/// assert!(matches!(again, Err(Error::TokenUsed(_))));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Tokens {
    shared: Arc<Shared>,
}

impl Idempotency {
    /// One-time tokens on this handle's store.
    pub fn tokens(&self) -> Tokens {
        Tokens {
            shared: Arc::clone(self.shared()),
        }
    }
}

impl Tokens {
    /// Issues a token that `subject` can redeem once for `operation`, for `ttl` from now on.
    ///
    /// The operation is a name like that of an endpoint: at most 128 of `A-Z a-z 0-9 . _ -`. Costs one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if no operation has such a name or the subject could not be serialized,
    /// [`Error::InvalidPolicy`] if `ttl` is less than a millisecond, [`Error::Unavailable`] and
    /// [`Error::Misconfigured`] if the store does not serve it.
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, a token that nobody knows may stand in the store until its ttl is over.
    ///
    /// A request to the store that was on its way for longer than the `ttl` puts the token once more: let it be longer than
    /// the handle's deadline by far.
    pub async fn issue(
        &self,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
        ttl: Duration,
    ) -> Result<Token, Error> {
        let observers = self.shared.observers();
        let fresh = self.fresh(subject, operation.into(), ttl);
        let (token, site, key) = fresh.inspect_err(|error| observers.emit_refused(error))?;
        let issue = observers.begin(&site);
        let put = self.put(&site, &key, ttl).await;
        issue.finish(&put, EventKind::TokenIssued);
        put.map(|()| token)
    }

    /// Redeems a token: one of all who try is accepted.
    ///
    /// From then on the token is used, whatever becomes of the work that it was redeemed for, and is told apart from an
    /// unknown one for as long as it would have been good. Who knows that nothing was done can
    /// [give it back](Redeemed::give_back). Costs one round trip, and a second one for a token that was given back.
    ///
    /// # Errors
    ///
    /// [`Error::TokenMalformed`] if it is not 64 lower-case hexadecimal digits (then nothing is sent),
    /// [`Error::TokenUsed`] if it was redeemed before, [`Error::TokenUnknown`] if it has expired, was never issued, or
    /// not to this subject for this operation: then it stays good for the one it was issued to.
    /// [`Error::ForeignRecord`] if something stands in its place that this version did not write. For the others see
    /// [`issue`](Self::issue).
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, or refused because it did not answer, nobody has redeemed the token, and
    /// the store may hold it for used: it is given back in the background, best effort, for a minute, unless more than
    /// [`cleanup_limit`](crate::Builder::cleanup_limit) wait for that already.
    pub async fn redeem(
        &self,
        token: &str,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
    ) -> Result<Redeemed, Error> {
        let operation = Endpoint::try_new(operation).map_err(Error::invalid_name);
        let operation =
            operation.inspect_err(|error| self.shared.observers().emit_refused(error))?;
        let redemption = Redemption::new(&self.shared, operation, token, |hasher| {
            hasher.part(subject)
        })?;
        redemption.redeem().await
    }

    /// A token that nobody has, and where it will stand.
    fn fresh(
        &self,
        subject: &(impl KeyPart + ?Sized),
        operation: Cow<'static, str>,
        ttl: Duration,
    ) -> Result<(Token, Site, String), Error> {
        let operation = Endpoint::try_new(operation).map_err(Error::invalid_name)?;
        if ttl < Duration::from_millis(1) {
            let what = "a token cannot be good for less than a millisecond";
            let site = Site::without_key(operation);
            return Err(Error::InvalidPolicy(Failure::new(site, what, None)));
        }
        let token = Token::random();
        let bound = binding(&self.shared, &operation, Some(token.as_str()), |hasher| {
            hasher.part(subject)
        })?;
        let (site, key) = locate(&self.shared, operation, bound);
        Ok((token, site, key))
    }

    async fn put(&self, site: &Site, key: &str, ttl: Duration) -> Result<(), Error> {
        let (store, fresh) = (self.shared.store(), record::FRESH);
        let deadline = self.shared.deadline();
        match retry::retry(deadline, || store.claim(key, &fresh, ttl)).await {
            Ok(Claim::Claimed) => Ok(()),
            // Nobody knows the token yet, so this is none.
            Ok(Claim::Taken(_)) => Err(Error::foreign(site.clone())),
            Err(error) => Err(Error::store(site.clone(), error)),
        }
    }
}
