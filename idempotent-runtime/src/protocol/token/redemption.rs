//! Redeeming a token, and giving it back.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::guard::SendGuard;
use super::owned::Owned;
use super::{Token, binding, locate};

use crate::error::{Error, Failure, Site};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, UnencodablePart};
use crate::observe::{Event, EventKind};
use crate::protocol::retry;
use crate::protocol::shared::Shared;
use crate::record::owner::Owner;
use crate::record::shape;
use crate::record::token as record;
use crate::record::token::State;
use crate::store::{StoreError, Swap};
use crate::sync::Mutex;

/// A token that is to be redeemed.
#[derive(Clone)]
pub(crate) struct Redemption(Arc<Owned>);

impl Redemption {
    /// Nothing is sent yet. `subject` has to add exactly one part, equal to what [`issue`](crate::Tokens::issue) was given:
    /// a subject of one value as it is, one of several as the tuple of them.
    ///
    /// # Errors
    ///
    /// If the token is malformed, or the subject could not be encoded. An event tells of it, as the end of the redemption.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        operation: Endpoint,
        token: &str,
        subject: impl FnOnce(&mut Hasher) -> Result<(), UnencodablePart>,
    ) -> Result<Self, Error> {
        let redemption = Self::build(shared, operation, token, subject);
        redemption.inspect_err(|error| shared.observers().emit_refused(error))
    }

    /// As [`new`](Self::new), and told by the caller, if at all.
    pub(crate) fn build(
        shared: &Arc<Shared>,
        operation: Endpoint,
        token: &str,
        subject: impl FnOnce(&mut Hasher) -> Result<(), UnencodablePart>,
    ) -> Result<Self, Error> {
        if !Token::is_well_formed(token) {
            let what = "a one-time token is 64 lower-case hexadecimal digits, and this is not";
            let site = Site::without_key(operation);
            return Err(Error::TokenMalformed(Failure::new(site, what, None)));
        }
        let bound = binding(shared, &operation, Some(token), subject)?;
        let (site, key) = locate(shared, operation, bound);
        let owner = Owner::random();
        Ok(Self(Arc::new(Owned {
            shared: Arc::clone(shared),
            site,
            bound,
            key,
            used: record::used(owner),
            returned: record::returned(owner),
            doubt: Mutex::new(None),
        })))
    }

    /// Redeems it, in 1 round trip; 2 if it was given back before.
    ///
    /// # Errors
    ///
    /// Why it is not redeemed.
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, it is given back in the background, best effort.
    pub(crate) async fn redeem(self) -> Result<Redeemed, Error> {
        let sent = SendGuard::taking(&self.0);
        self.redeem_by(sent).await
    }

    /// The same for a call. Without an answer, or dropped, it [is in doubt](Self::is_in_doubt), and nothing is sent in the
    /// background: the end of the call [sends it back](Self::send_back).
    pub(crate) async fn redeem_for_call(self) -> Result<Redeemed, Error> {
        let sent = SendGuard::of_a_call(&self.0);
        self.redeem_by(sent).await
    }

    async fn redeem_by(self, sent: SendGuard) -> Result<Redeemed, Error> {
        let operation = self.0.shared.observers().begin(&self.0.site);
        let redeemed = self.sent(sent).await;
        operation.finish(&redeemed, EventKind::TokenRedeemed);
        redeemed
    }

    async fn sent(&self, mut sent: SendGuard) -> Result<Redeemed, Error> {
        let owned = &*self.0;
        let until = Instant::now() + owned.shared.deadline();
        let standing = loop {
            let left = until.duration_since(Instant::now());
            match retry::retry(left, || Box::pin(sent.take())).await {
                Ok(Swap::Done) => return Ok(Redeemed(Arc::clone(&self.0))),
                Ok(Swap::Absent) => {
                    let what = "there is no such one-time token: it has expired, was never issued, \
                                or was issued to somebody else or for something else";
                    return Err(Error::TokenUnknown(owned.failure(what)));
                }
                Ok(Swap::Other(standing)) if sent.may_expect(&standing) => sent.expect(standing),
                Ok(Swap::Other(standing)) => break standing,
                Err(error) => return Err(Error::store(owned.site.clone(), error)),
            }
        };
        Err(match record::read(&standing) {
            Some(State::Used) => {
                Error::TokenUsed(owned.failure("the one-time token was redeemed before"))
            }
            // It never expires, so it is not ours.
            Some(State::Free) | None => {
                Error::foreign(owned.site.clone(), shape::describe(&standing))
            }
        })
    }

    /// The digest of the token and of what it is bound to.
    pub(crate) fn bound(&self) -> &Fingerprint {
        &self.0.bound
    }

    /// Whether the token may have been redeemed without anybody knowing.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0.doubt().is_some()
    }

    /// Gives the token back that was redeemed under this owner, or may have been. It may be sent twice.
    pub(crate) async fn send_back(&self) -> Result<(), StoreError> {
        let owned = &*self.0;
        let began = owned.shared.observers().start_time();
        let doubt = owned.doubt().clone();
        if let Some(expected) = doubt {
            owned.take_back(&expected).await?;
            *owned.doubt() = None;
            return Ok(());
        }
        match owned.exchange(&owned.used, &owned.returned).await? {
            Swap::Done => owned.is_given_back(began),
            // It has expired; or it was given back by an earlier send, and another has it by now.
            Swap::Absent | Swap::Other(_) => {}
        }
        Ok(())
    }

    /// Nothing more is sent for it: it stays as it is.
    pub(crate) fn give_up(&self, why: &'static str) {
        *self.0.doubt() = None;
        let event = Event::new(&self.0.site, EventKind::NotWithdrawn).because(why);
        self.0.shared.observers().emit(&event);
    }
}

impl fmt::Debug for Redemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redemption").field(&self.0.site).finish()
    }
}

/// A one-time token that this caller has redeemed, and nobody else. Dropped, it stays used.
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
///     // Nothing was ordered, so the person may correct the form and submit it again.
///     redeemed.give_back().await?;
/// }
/// # tokens.redeem(token.as_str(), &42, "orders.submit").await?;
/// # Ok(()) }
/// ```
pub struct Redeemed(Arc<Owned>);

impl Redeemed {
    /// Gives the token back: it may be redeemed again, for as long as it would have been good.
    ///
    /// Only for work that was not done and never will be: of a commit whose answer was lost that is not known. Answers
    /// whether it was given back; it was not if it has expired. Costs one round trip, and may be repeated after an error.
    ///
    /// # Errors
    ///
    /// If the store does not serve it, or something stands in its place that this version did not write. Without an answer it
    /// goes on in the background.
    ///
    /// # Cancellation
    ///
    /// Dropped before the store has answered, it goes on in the background, best effort, for a minute.
    pub async fn give_back(&self) -> Result<bool, Error> {
        let mut sent = SendGuard::returning(&self.0);
        let owned = &*self.0;
        let Owned { used, returned, .. } = owned;
        let deadline = owned.shared.deadline();
        let operation = owned.shared.observers().begin(&owned.site);
        let answer = retry::retry(deadline, || owned.exchange(used, returned)).await;
        if answer.is_ok() {
            sent.is_answered();
        }
        let given_back = match answer {
            Ok(Swap::Absent) => Ok(false),
            Ok(Swap::Other(standing)) if record::read(&standing).is_none() => Err(Error::foreign(
                owned.site.clone(),
                shape::describe(&standing),
            )),
            // Nobody but this one takes its own record away: it did, and another has the token by now.
            Ok(Swap::Done | Swap::Other(_)) => Ok(true),
            Err(error) => Err(Error::store(owned.site.clone(), error)),
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
            .expect("a redemption")
    }

    #[tokio::test]
    async fn a_subject_of_several_parts_is_their_tuple_and_one_of_one_part_is_it() {
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
