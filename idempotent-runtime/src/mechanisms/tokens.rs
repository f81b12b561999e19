//! One-time tokens. A token is issued to a subject for an operation, and is redeemed once.

#[cfg(test)]
mod properties;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Failure, Site, Subject};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::observe::EventKind;
use crate::protocol::retry;
use crate::protocol::shared::Shared;
use crate::protocol::token::redemption::{Redeemed, Redemption};
use crate::protocol::token::{Token, binding, locate};
use crate::record::shape;
use crate::record::token as record;
use crate::store::Claim;

/// One-time tokens on the store of a handle. Cheap to clone.
///
/// A page fetches a token before it shows its form, and sends the token with the form. The first submit is accepted, every
/// other submit is refused. A token is bound to a subject (for example a user or a session) and to an operation, so that no
/// other subject can redeem it. Tokens are independent: a user with two tabs has two valid tokens.
///
/// The store has a digest of the token, the operation and the subject, never the token. So a reader of the store cannot redeem
/// a token.
///
/// # In a guarded call
///
/// The option `token` of the attribute redeems a token after the call has its claim, and before the body begins:
///
/// | the call | its claim | its token |
/// | --- | --- | --- |
/// | is a duplicate, or gets the stored result | the other call's claim stays | untouched |
/// | is refused: malformed, used or unknown | none, or removed at once | untouched |
/// | gets no answer in time (`Unavailable`, also with `on_store_error = "run"`), or is dropped before the body | removed, unless the store stays silent | given back, unless the store stays silent |
/// | its body succeeds, or its error is stored (`replay_err`) | by `release` | used |
/// | its body fails | by `release` | used; with `give_back = true` given back before the key is free |
/// | is dropped in its body with `on_cancel = "release"` | removed | used; with `give_back = true` given back |
/// | is dropped with `"keep"`, panics, loses its lease, crashes | held until the lease ends | used: the work may be done |
///
/// A body that is dropped with `"finish"` runs to its end.
///
/// # Without the attribute
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
#[doc(alias("令牌", "防重复提交"))]
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
    /// The operation is a name of 1 to 128 of `A-Z a-z 0-9 . _ -`. Choose a `ttl` that is much longer than the handle's deadline:
    /// a request that reaches the store after the `ttl` would store the token again.
    ///
    /// Round trips: one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if the name of the operation is invalid or the subject cannot be serialized,
    /// [`Error::InvalidPolicy`] if `ttl` is less than a millisecond, [`Error::Unavailable`] or
    /// [`Error::Misconfigured`] if the store cannot serve the request.
    ///
    /// # Cancellation
    ///
    /// After a drop the store may have a token that no client knows. It expires after its `ttl`.
    pub async fn issue(
        &self,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
        ttl: Duration,
    ) -> Result<Token, Error> {
        let observers = self.shared.observers();
        let generated = self.generate(subject, operation.into(), ttl);
        let (token, site, key) = generated.inspect_err(|error| observers.emit_refused(error))?;
        let issue = observers.begin(&site);
        let put = self.put(&site, &key, ttl).await;
        issue.finish(&put, EventKind::TokenIssued);
        put.map(|()| token)
    }

    /// Redeems a token. Of any number of concurrent callers exactly one is accepted.
    ///
    /// From then on the token is used, even if the work after it fails. Until its `ttl` expires, another redemption gets
    /// [`Error::TokenUsed`]. If you know that no work was done, you can [give the token back](Redeemed::give_back).
    ///
    /// Round trips: one, or two for a token that was given back.
    ///
    /// # Errors
    ///
    /// * [`Error::TokenMalformed`] if it is not 64 lower-case hexadecimal digits. In this case nothing is sent.
    /// * [`Error::TokenUsed`] if it was redeemed before.
    /// * [`Error::TokenUnknown`] if it has expired, or was never issued to this subject for this operation. A token of another
    ///   subject or operation stays valid for them.
    /// * [`Error::ForeignRecord`] if the store has other bytes under its key, which this version did not write.
    /// * The errors of [`issue`](Self::issue).
    ///
    /// # Cancellation
    ///
    /// After a drop or [`Error::Unavailable`] no caller has redeemed the token, but it may be stored as used. So a background
    /// task tries for at most a minute to give it back, unless more than [`cleanup_limit`](crate::Builder::cleanup_limit)
    /// cleanups are waiting.
    pub async fn redeem(
        &self,
        token: &str,
        subject: &(impl KeyPart + ?Sized),
        operation: impl Into<Cow<'static, str>>,
    ) -> Result<Redeemed, Error> {
        let operation = operation_of(operation);
        let operation =
            operation.inspect_err(|error| self.shared.observers().emit_refused(error))?;
        let redemption = Redemption::new(&self.shared, operation, token, |hasher| {
            hasher.part(subject)
        })?;
        redemption.redeem().await
    }

    /// A new token, its site, and its key in the store.
    fn generate(
        &self,
        subject: &(impl KeyPart + ?Sized),
        operation: Cow<'static, str>,
        ttl: Duration,
    ) -> Result<(Token, Site, String), Error> {
        let operation = operation_of(operation)?;
        if ttl < Duration::from_millis(1) {
            let what = "the `ttl` of a token must be at least 1ms";
            let site = Site::of(Subject::Token, operation);
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
            // The token is new, so the bytes under its key are not a token.
            Ok(Claim::Taken(found)) => Err(Error::foreign(site.clone(), shape::describe(&found))),
            Err(error) => Err(Error::store_operation(site.clone(), error)),
        }
    }
}

fn operation_of(name: impl Into<Cow<'static, str>>) -> Result<Endpoint, Error> {
    Endpoint::try_new(name).map_err(|name| Error::invalid_name(Subject::Token, &name))
}
