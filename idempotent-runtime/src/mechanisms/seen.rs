//! Seen-sets: what was seen before, such as the digests of uploaded files, or the numbers of orders.

mod member;
mod removal_guard;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::member::{Member, Set};
use self::removal_guard::RemovalGuard;
use crate::error::{Error, SetupError};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::KeyPart;
use crate::key::kind::Kind;
use crate::observe::EventKind;
use crate::protocol::retry;
#[cfg(feature = "order-numbers")]
use crate::protocol::retry::Attempt;
#[cfg(feature = "order-numbers")]
use crate::store::Hint;
use crate::store::{Claim, StoreErrorKind, Swap};

/// Remembers what was seen, each member for a retention: [`Idempotency::seen_set`]. Cheap to clone.
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
/// **Before the work**, and [`take_back`](Added::take_back) after a failure: the work is done at most once. A process that
/// dies in between leaves the member in the set and the work undone, for the retention. That is right for what is better
/// lost than done twice: a message to a phone, a file that can be uploaded again under another name.
///
/// **After the work**, as its last step: the work is done at least once. Nobody is kept from doing it at the same time, and who
/// is answered [`FirstTime::No`] undoes what it did, as by rolling back a transaction.
///
/// What must be neither lost nor done twice is no case for a set: a [guarded call](crate::GuardedCall) is free again soon
/// after its process has died, and a row with a unique index commits or rolls back together with the work.
///
/// # What is kept
///
/// Not the members, but their fingerprints, by the [digest](crate::Builder::digest) of the handle. With MD5 two contents can be
/// made that have the same: where members are made by people who would gain from that, use
/// [`Digest::Sha256`](crate::Digest::Sha256) (32 bytes a member in the place of 16), and as a member the content's SHA-256
/// rather than its MD5.
///
/// A member is remembered at least for the retention. Most stores forget it then. On Redis, which must have version 3.2, it
/// is remembered up to a quarter longer, since members go by the bucketful: a set is a ring of hashes, one for each quarter
/// of the retention, so that steady traffic neither lets it grow for ever nor has all forgotten at once. All who share a set
/// use the same retention; while a deploy changes it, the shorter one counts.
#[derive(Clone)]
pub struct SeenSet(Arc<Set>);

/// Whether a member was seen for the first time.
#[derive(Debug)]
#[must_use = "what was seen before is not to be done again"]
pub enum FirstTime {
    /// It was not in the set, and is now.
    Yes(Added),
    /// It was in the set.
    No,
}

impl FirstTime {
    /// Whether it was not in the set.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}

/// A member that this caller has added. Dropped, it stays in the set.
pub struct Added {
    member: Member,
    /// It was sent more than once, so that a request may still be on its way that would add it again.
    sent_again: bool,
}

impl Idempotency {
    /// A set of what was seen, under a name of at most 128 of `A-Z a-z 0-9 . _ -`. All who name it so share it.
    ///
    /// # Errors
    ///
    /// If the name has other characters, or the retention is less than a millisecond.
    pub fn seen_set(
        &self,
        name: impl Into<Cow<'static, str>>,
        retention: Duration,
    ) -> Result<SeenSet, SetupError> {
        let endpoint = Endpoint::try_new(name)?;
        if retention < Duration::from_millis(1) {
            return Err(SetupError::new(format!(
                "seen-set `{endpoint}`: a retention of {retention:?} remembers nothing"
            )));
        }
        Ok(SeenSet(Arc::new(Set {
            shared: Arc::clone(self.shared()),
            endpoint,
            retention,
            shards: SHARDS,
            kind: Kind::Seen,
        })))
    }
}

impl SeenSet {
    /// Cuts the set into so many parts, 1 to 4096, by the members' fingerprints. Default: 64.
    ///
    /// All who share the set cut it into as many, or they do not see each other's members. For stores other than Redis it
    /// changes nothing but the names of keys.
    ///
    /// In a cluster the parts are on different nodes, and the load with them. On any Redis, hashes of 512 members at most take a
    /// third of the memory, and large ones hold the server up when they expire: a hundred thousand members for about a tenth
    /// of a second (but for `lazyfree-lazy-expire yes`). So one part for each 1000 members of a retention is best: 64 keeps up to 60,000 of them small.
    ///
    /// # Errors
    ///
    /// If it is none, or more than 4096.
    pub fn shards(mut self, shards: u16) -> Result<Self, SetupError> {
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(SetupError::new(format!(
                "seen-set `{}`: {shards} shards make no sense: use 1 to {MOST_SHARDS}",
                self.0.endpoint
            )));
        }
        Arc::make_mut(&mut self.0).shards = shards;
        Ok(self)
    }

    /// Adds `member` to the set, and says whether it was not there: of any number of callers at once, one is the first.
    ///
    /// One round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store gives no answer within the handle's deadline, [`Error::Misconfigured`] if it cannot
    /// serve this as it is set up, [`Error::InvalidKey`] if the member could not be encoded.
    ///
    /// # Cancellation
    ///
    /// Dropped before its answer, or refused with [`Error::Unavailable`], the caller does not know whether it has added the
    /// member. Then it is taken out again in the background, so that the next one is the first; tried for a minute at most,
    /// and [drained](Idempotency::drain) like all that goes on without its caller. Until then others are answered
    /// [`FirstTime::No`]; and if it fails, or the process dies, for as long as the retention, without anybody having been the first.
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
                let error = Error::store(site.clone(), error);
                operation.fail(&error);
                Err(error)
            }
        }
    }

    /// Adds `member`, and says whether it may have been there: asked once, and nothing is made of a missing answer.
    #[cfg(feature = "order-numbers")]
    pub(crate) async fn hint<M: KeyPart + ?Sized>(&self, member: &M) -> Hint {
        let Ok(member) = Member::new(&self.0, member) else {
            return Hint::Unseen;
        };
        let key = member.key();
        let adding = member.insert(&key);
        let site = member.site();
        let operation = self.0.shared.observers().begin(&site);
        match Attempt::first(adding, self.0.shared.deadline()).await {
            Ok(Claim::Taken(_)) => {
                operation.succeed(EventKind::SeenBefore);
                Hint::PerhapsSeen
            }
            Ok(Claim::Claimed) => {
                operation.succeed(EventKind::FirstSeen);
                Hint::Unseen
            }
            Err(error) => {
                operation.fail(&Error::store(site.clone(), error));
                Hint::Unseen
            }
        }
    }

    /// The same set under keys of another kind, for what this crate itself has seen.
    #[cfg(feature = "order-numbers")]
    pub(crate) fn with_kind(mut self, kind: Kind) -> Self {
        Arc::make_mut(&mut self.0).kind = kind;
        self
    }
}

impl Added {
    /// Takes the member out of the set, for work that failed: whoever comes with it next is the first again.
    ///
    /// Only what this caller has added is taken out. `false` says that it was not there any more: taken back before, or
    /// forgotten, perhaps added by another since, who keeps it. One round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] and [`Error::Misconfigured`], as of [`SeenSet::first_time`]. It is then tried on in the
    /// background, as that is; it may also be called again.
    ///
    /// # Cancellation
    ///
    /// Dropped before its answer, it goes on in the background.
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
                // Absent after a try without an answer: that one took it out.
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
                let error = Error::store(site.clone(), error);
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
            .field("shards", &self.0.shards)
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

/// Small sets then lie in small hashes, large ones go by the part, and the nodes of a cluster share them.
const SHARDS: u16 = 64;
const MOST_SHARDS: u16 = 4096;
