//! Redeems tokens and gives them back.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::guard::SendGuard;
use super::owned::Owned;
use super::{Token, binding, locate};
use crate::error::{Error, Failure, Site, Subject};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, UnencodablePart};
use crate::observe::{Event, EventKind};
use crate::protocol::retry;
use crate::protocol::shared::Shared;
use crate::record::owner::Owner;
use crate::record::shape;
use crate::record::token as record;
use crate::record::token::TokenState;
use crate::store::{StoreError, Swap};
use crate::sync::Mutex;

/// A token that will be redeemed.
#[derive(Clone)]
pub(crate) struct Redemption(Arc<Owned>);

impl Redemption {
    /// Prepares a redemption. Sends nothing yet. `subject` must add exactly one part, equal to the subject of
    /// [`issue`](crate::Tokens::issue): one value as itself, several values as a tuple.
    ///
    /// # Errors
    ///
    /// If the token is malformed, or the subject cannot be encoded. Emits the event of the refused redemption.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        operation: Endpoint,
        token: &str,
        subject: impl FnOnce(&mut Hasher) -> Result<(), UnencodablePart>,
    ) -> Result<Self, Error> {
        let redemption = Self::build(shared, operation, token, subject);
        redemption.inspect_err(|error| shared.observers().emit_refused(error))
    }

    /// Does the same as [`new`](Self::new), but emits no event.
    pub(crate) fn build(
        shared: &Arc<Shared>,
        operation: Endpoint,
        token: &str,
        subject: impl FnOnce(&mut Hasher) -> Result<(), UnencodablePart>,
    ) -> Result<Self, Error> {
        if !Token::is_well_formed(token) {
            let what = "a one-time token is 64 lower-case hexadecimal digits, and this is not";
            let site = Site::of(Subject::Token, operation);
            return Err(Error::TokenMalformed(Failure::new(site, what, None)));
        }
        let bound = binding(shared, &operation, Some(token), subject)?;
        let (site, key) = locate(shared, operation, bound);
        Ok(Self::with_new_owner(Arc::clone(shared), site, bound, key))
    }

    /// Another redemption of the same token: the store accepts only one of the two.
    pub(crate) fn by_another_owner(&self) -> Self {
        let owned = &*self.0;
        let (site, key) = (owned.site.clone(), owned.key.clone());
        Self::with_new_owner(Arc::clone(&owned.shared), site, owned.bound, key)
    }

    /// A redemption by a new owner.
    fn with_new_owner(shared: Arc<Shared>, site: Site, bound: Fingerprint, key: String) -> Self {
        let owner = Owner::random();
        Self(Arc::new(Owned {
            shared,
            site,
            bound,
            key,
            used: record::used(owner),
            returned: record::returned(owner),
            unconfirmed: Mutex::new(None),
        }))
    }

    /// Redeems the token, in 1 round trip, or 2 if it was given back before.
    ///
    /// # Errors
    ///
    /// Why the token is not redeemed.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped before the store has answered, a background job tries to give the token back.
    pub(crate) async fn redeem(self) -> Result<Redeemed, Error> {
        let guard = SendGuard::for_redemption(&self.0);
        self.redeem_with(guard, false).await
    }

    /// Does the same as [`redeem`](Self::redeem), for a call. Without an answer the token [is unconfirmed](Self::is_unconfirmed), and
    /// nothing is sent in the background: the end of the call [sends it back](Self::send_back).
    pub(crate) async fn redeem_for_call(self) -> Result<Redeemed, Error> {
        let guard = SendGuard::for_call(&self.0);
        self.redeem_with(guard, true).await
    }

    async fn redeem_with(self, guard: SendGuard, in_call: bool) -> Result<Redeemed, Error> {
        let operation = self.0.shared.observers().begin(&self.0.site);
        let operation = operation.in_call(in_call);
        let redeemed = self.exchange(guard).await;
        operation.finish(&redeemed, EventKind::TokenRedeemed);
        redeemed
    }

    async fn exchange(&self, mut guard: SendGuard) -> Result<Redeemed, Error> {
        let owned = &*self.0;
        let until = Instant::now() + owned.shared.deadline();
        let current = loop {
            let remaining = until.duration_since(Instant::now());
            let answer = retry::retry(remaining, || Box::pin(guard.redeem())).await;
            match answer.map_err(|error| retry::name_deadline(error, owned.shared.deadline())) {
                Ok(Swap::Done) => return Ok(Redeemed(Arc::clone(&self.0))),
                Ok(Swap::Absent) => {
                    let what = "there is no such one-time token: it has expired, was never issued, \
                                or was issued to another subject or for another operation";
                    return Err(Error::TokenUnknown(owned.failure(what)));
                }
                Ok(Swap::Other(current)) if guard.may_expect(&current) => guard.expect(current),
                Ok(Swap::Other(current)) => break current,
                Err(error) => return Err(Error::store_operation(owned.site.clone(), error)),
            }
        };
        Err(match record::read(&current) {
            Some(TokenState::Used) => {
                Error::TokenUsed(owned.failure("the one-time token was redeemed before"))
            }
            // A free token would have been redeemed, so another program has written this record.
            Some(TokenState::Free) | None => {
                Error::foreign(owned.site.clone(), shape::describe(&current))
            }
        })
    }

    /// The digest of the token and of its binding.
    pub(crate) fn bound(&self) -> &Fingerprint {
        &self.0.bound
    }

    /// Whether the token may have been redeemed although its redemption got no answer.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.0.unconfirmed().is_some()
    }

    /// Gives back a token that this owner has redeemed, or may have redeemed. May be called twice.
    pub(crate) async fn send_back(&self) -> Result<(), StoreError> {
        let owned = &*self.0;
        let began = owned.shared.observers().start_time();
        let unconfirmed = owned.unconfirmed().clone();
        if let Some(expected) = unconfirmed {
            owned.take_back(&expected).await?;
            *owned.unconfirmed() = None;
            return Ok(());
        }
        match owned.exchange(&owned.used, &owned.returned).await? {
            Swap::Done => owned.emit_given_back(began),
            // The token has expired, or an earlier send gave it back and another owner has redeemed it in the meantime.
            Swap::Absent | Swap::Other(_) => {}
        }
        Ok(())
    }

    /// Stops giving the token back. The record of the token does not change any more.
    pub(crate) fn give_up(&self, why: &'static str) {
        *self.0.unconfirmed() = None;
        let event = Event::new(&self.0.site, EventKind::NotWithdrawn).because(why);
        self.0.shared.observers().emit(&event);
    }
}

impl fmt::Debug for Redemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redemption").field(&self.0.site).finish()
    }
}

/// A one-time token that this caller has redeemed. If this is dropped, the token stays used.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotence::Error> {
/// # use std::time::Duration;
/// # use idempotence::{Idempotency, MemoryStore};
/// # let tokens = Idempotency::new(MemoryStore::new()).tokens();
/// # let token = tokens.issue(&42, "orders.submit", Duration::from_mins(30)).await?;
/// # fn check() -> Result<(), ()> { Err(()) }
/// let redeemed = tokens.redeem(token.as_str(), &42, "orders.submit").await?;
/// if check().is_err() {
///     // Nothing was ordered, so the form can be corrected and submitted again.
///     redeemed.give_back().await?;
/// }
/// # tokens.redeem(token.as_str(), &42, "orders.submit").await?;
/// # Ok(()) }
/// ```
pub struct Redeemed(Arc<Owned>);

impl Redeemed {
    /// Gives the token back, so that it can be redeemed again until it expires. Returns `false` if it has expired.
    ///
    /// Use it only for work that was not done and never will be. After a commit whose answer was lost this is not known, so do
    /// not give the token back then. Costs one round trip, and may be repeated after an error.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or this version did not write the record of the token. Without an answer the token is
    /// given back in the background.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped before the store has answered, a background job tries to give the token back for a minute.
    pub async fn give_back(&self) -> Result<bool, Error> {
        let mut guard = SendGuard::for_return(&self.0);
        let owned = &*self.0;
        let Owned { used, returned, .. } = owned;
        let deadline = owned.shared.deadline();
        let operation = owned.shared.observers().begin(&owned.site);
        let answer = retry::retry(deadline, || owned.exchange(used, returned)).await;
        if answer.is_ok() {
            guard.defuse();
        }
        let given_back = match answer {
            Ok(Swap::Absent) => Ok(false),
            Ok(Swap::Other(current)) if record::read(&current).is_none() => Err(Error::foreign(
                owned.site.clone(),
                shape::describe(&current),
            )),
            // Only this owner replaces its record. So an earlier send gave the token back, and another owner has redeemed it in
            // the meantime.
            Ok(Swap::Done | Swap::Other(_)) => Ok(true),
            Err(error) => Err(Error::store_operation(owned.site.clone(), error)),
        };
        match &given_back {
            Ok(false) => operation.succeed(EventKind::NotThere),
            _ => operation.finish(&given_back, EventKind::TokenGivenBack),
        }
        given_back
    }
}

impl fmt::Debug for Redeemed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redeemed").field(&self.0.site).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::handle::Idempotency;
    use crate::store::memory::MemoryStore;

    const TTL: Duration = Duration::from_secs(30);

    fn redemption(idempotency: &Idempotency, token: &Token, parts: &[u64]) -> Redemption {
        let operation = Endpoint::named("orders.submit");
        let subject = |hasher: &mut Hasher| match parts {
            [one] => hasher.part(one),
            several => hasher.part(several),
        };
        Redemption::new(idempotency.shared(), operation, token.as_str(), subject)
            .expect("the token and the subject are valid")
    }

    #[tokio::test]
    async fn a_subject_of_several_parts_equals_their_tuple() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let tokens = idempotency.tokens();
        let one = tokens.issue(&42, "orders.submit", TTL).await.unwrap();
        let pair = tokens.issue(&(42, 7), "orders.submit", TTL).await.unwrap();
        for (token, others, own) in [
            (&one, [&[42, 7][..], &[7]], &[42][..]),
            (&pair, [&[42], &[7, 42]], &[42, 7]),
        ] {
            for other in others {
                let refused = redemption(&idempotency, token, other).redeem().await;
                assert!(matches!(refused, Err(Error::TokenUnknown(_))), "{other:?}");
            }
            redemption(&idempotency, token, own).redeem().await.unwrap();
        }
    }
}
