//! Seen-sets remember what was seen before, for example the digests of uploaded files, or the numbers of orders.

pub(crate) mod builder;
mod member;
mod removal_guard;

use std::fmt;
use std::sync::Arc;

use self::member::{Member, Set};
use self::removal_guard::RemovalGuard;
use crate::error::Error;
use crate::key::fingerprint::KeyPart;
#[cfg(feature = "order-numbers")]
use crate::key::kind::RecordKind;
use crate::observe::EventKind;
use crate::protocol::retry;
#[cfg(feature = "order-numbers")]
use crate::protocol::retry::StoreAttempt;
#[cfg(feature = "order-numbers")]
use crate::store::Hint;
use crate::store::{Claim, StoreErrorKind, Swap};

/// Remembers which members were seen, each for a retention. Cheap to clone.
///
/// See [`Idempotency::seen_set`](crate::Idempotency::seen_set).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use idempotence::{FirstTime, Idempotency, MemoryStore};
///
/// # async fn import(_: &str) -> Result<(), &'static str> { Ok(()) }
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let seen = idempotency.seen_set("imports.sheet", Duration::from_hours(24))?;
/// for upload in 0..2 {
///     let digest = "9e107d9d372bb6826bd81d3542a419d6";
///     match seen.first_time(digest).await? {
///         FirstTime::Yes(added) => {
///             assert_eq!(upload, 0);
///             if import(digest).await.is_err() {
///                 added.take_back().await?;
///             }
///         }
///         FirstTime::No => assert_eq!(upload, 1),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # When to add
///
/// **Before the work**, with [`take_back`](Added::take_back) after a failure: the work is done at most once. If the process
/// dies in between, the member stays in the set for the retention, and the work is not done. Choose this if lost work is better
/// than work done twice: for example a message to a phone, or a file that can be uploaded again under another name.
///
/// **After the work**, as its last step: the work is done at least once. Several callers may do it at the same time. A caller
/// that gets [`FirstTime::No`] must undo its work, for example by a rollback of its transaction.
///
/// If work must neither be lost nor be done twice, a set is the wrong tool. The key of a [guarded call](crate::GuardedCall)
/// becomes free soon after its process has died, and a row with a unique index commits or rolls back together with the work.
///
/// # What is stored
///
/// The store does not have the members, but their fingerprints, made with the [digest](crate::Builder::digest) of the handle.
/// With MD5 an attacker can make two contents with the same fingerprint. If your users could gain from that, use
/// [`Digest::Sha256`](crate::Digest::Sha256), which takes 32 bytes per member instead of 16, and use the SHA-256 of a content
/// as the member, not its MD5.
///
/// Each member is a record, which expires when the retention of the member ends. So a set with steady traffic does not grow
/// without a limit, and does not forget everything at once. On Redis a member takes about 180 bytes. A later change of the
/// retention affects new members only.
#[doc(alias("dedup"))]
#[derive(Clone)]
pub struct SeenSet(Arc<Set>);

/// Whether a member was seen for the first time.
#[derive(Debug)]
#[must_use = "work on a member that was seen before must not be repeated"]
pub enum FirstTime {
    /// The member was not in the set, and was added.
    Yes(Added),
    /// The member was in the set.
    No,
}

impl FirstTime {
    /// Whether the member was not in the set.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}

/// A member that this caller has added. Dropping this value does not remove the member.
pub struct Added {
    member: Member,
    /// Whether the add was sent more than once. If so, a late copy may add the member again.
    sent_again: bool,
}

impl SeenSet {
    /// Adds `member` to the set, and returns whether it was new. Of any number of concurrent callers exactly one gets
    /// [`FirstTime::Yes`].
    ///
    /// Round trips: one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store does not answer within the handle's deadline, [`Error::Misconfigured`] if the store
    /// cannot serve the request with its current setup, [`Error::InvalidKey`] if the member cannot be serialized.
    ///
    /// # Cancellation
    ///
    /// After a drop, or after [`Error::Unavailable`], the caller does not know whether it has added the member. So a background
    /// task tries for at most a minute to remove the member. After that the next caller is the first.
    /// [`drain`](crate::Idempotency::drain) waits for this task. Until then other callers get [`FirstTime::No`]. If the removal
    /// fails, or the process dies, they get it for the retention, although no caller was the first.
    pub async fn first_time<M: KeyPart + ?Sized>(&self, member: &M) -> Result<FirstTime, Error> {
        let member = Member::new(&self.0, member)?;
        let key = member.key();
        let mut sends = 0_u32;
        let site = member.site();
        let operation = self.0.shared.observers().begin(&site);
        let guard = RemovalGuard::new(member.clone());
        let answer = retry::retry(self.0.shared.deadline(), || {
            sends += 1;
            member.insert(&key)
        });
        let answer = answer.await;
        match answer {
            Ok(Claim::Claimed) => {
                guard.defuse();
                operation.succeed(EventKind::FirstSeen);
                let sent_again = sends > 1;
                Ok(FirstTime::Yes(Added { member, sent_again }))
            }
            Ok(Claim::Taken(_)) => {
                guard.defuse_if(sends == 1);
                operation.succeed(EventKind::SeenBefore);
                Ok(FirstTime::No)
            }
            Err(error) => {
                if sends == 1 && error.kind() != StoreErrorKind::Unknown {
                    guard.defuse();
                } else {
                    guard.remove_in_background();
                }
                let error = Error::store_operation(site.clone(), error);
                operation.fail(&error);
                Err(error)
            }
        }
    }

    /// Adds `member`, and returns whether it may have been in the set. The request is sent once, and a failure counts as
    /// unseen.
    #[cfg(feature = "order-numbers")]
    pub(crate) async fn hint<M: KeyPart + ?Sized>(&self, member: &M) -> Hint {
        let Ok(member) = Member::new(&self.0, member) else {
            return Hint::Unseen;
        };
        let key = member.key();
        let adding = member.insert(&key);
        let site = member.site();
        let operation = self.0.shared.observers().begin(&site);
        match StoreAttempt::first(adding, self.0.shared.deadline()).await {
            Ok(Claim::Taken(_)) => {
                operation.succeed(EventKind::SeenBefore);
                Hint::PerhapsSeen
            }
            Ok(Claim::Claimed) => {
                operation.succeed(EventKind::FirstSeen);
                Hint::Unseen
            }
            Err(error) => {
                operation.fail(&Error::store_operation(site.clone(), error));
                Hint::Unseen
            }
        }
    }

    /// The same set under keys of another kind, for the sets of this crate.
    #[cfg(feature = "order-numbers")]
    pub(crate) fn with_kind(mut self, kind: RecordKind) -> Self {
        Arc::make_mut(&mut self.0).kind = kind;
        self
    }
}

impl Added {
    /// Removes the member from the set after the work has failed, so that the next caller is the first.
    ///
    /// `false` if the entry of this caller is no longer in the set: it was taken back before, or it has expired. An entry that
    /// another caller has added in the meantime stays.
    ///
    /// Round trips: one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] and [`Error::Misconfigured`], as for [`SeenSet::first_time`]. The removal then continues in the
    /// background, for at most a minute. You may also call `take_back` again.
    ///
    /// # Cancellation
    ///
    /// After a drop the removal continues in the background.
    pub async fn take_back(&self) -> Result<bool, Error> {
        let member = &self.member;
        let (key, mut sends) = (member.key(), 0_u32);
        let (site, shared) = (member.site(), &member.set.shared);
        let operation = shared.observers().begin(&site);
        let guard = RemovalGuard::new(member.clone());
        let answer = retry::retry(shared.deadline(), || {
            sends += 1;
            member.remove(&key)
        });
        let answer = answer.await;
        match answer {
            Ok(swap) => {
                guard.defuse_if(!self.sent_again);
                // If the member is absent after an attempt without an answer, that attempt has removed it.
                let taken_back = swap == Swap::Done || swap == Swap::Absent && sends > 1;
                operation.succeed(if taken_back {
                    EventKind::TakenBack
                } else {
                    EventKind::NotThere
                });
                Ok(taken_back)
            }
            Err(error) => {
                guard.remove_in_background();
                let error = Error::store_operation(site.clone(), error);
                operation.fail(&error);
                Err(error)
            }
        }
    }
}

impl fmt::Debug for SeenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenSet")
            .field("name", &self.0.endpoint)
            .field("retention", &self.0.retention)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added")
            .field("set", &self.member.set.endpoint)
            .field("member", &self.member.fingerprint)
            .finish_non_exhaustive()
    }
}
