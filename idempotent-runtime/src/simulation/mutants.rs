//! Protocols that look right and are not, each known from a product, a recipe or a bug report. The checks must see
//! them all, or they would see nothing.
//!
//! Most stand at the engine's border, where a store, a policy or a clock does what the mutant protocol would: so the
//! engine stays clean. Four are in the engine, behind `mutant!`, which is `false` outside of these tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::link::Link;
use super::promise::{
    AFTER_LEASE, BESIDE, DONE_STAYS, ENDS, IN_TIME, KEY_STAYS, NOT_FOR_EVER, ONE_BODY, OWN_CLAIM,
    OWN_RECORD, RECORDED, RENEWED, TRUE,
};
use super::server::Op;
use crate::store::{Claim, Entry, Store, StoreError, StoreErrorKind, Swap};

/// One mutant protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The end of a call deletes whatever stands there (`DEL lock`): the next holder's record, if the lease was over.
    RemovesUnowned,
    /// The end of a call sets its result without a look at what stands there.
    CompletesPlainly,
    /// A claim is a look and then a put.
    LooksThenPuts,
    /// A claim that is sent again takes its own record, whose reply was lost, for another's.
    NoOwnRecordCheck,
    /// A claim that is sent again has another owner: the same bug from the other side.
    NewOwnerForRetry,
    /// A claim is put, and its expiry is set afterwards (`SETNX`, `EXPIRE`).
    SetsWithoutExpiry,
    /// A renewal sets the expiry of whatever stands there (`EXPIRE lock`).
    RenewsUnowned,
    /// A completion that got no answer is taken for a failure, and the record is removed.
    TimedOutCompletionReleased,
    /// The payload is not part of the record.
    NoPayloadCheck,
    /// The store loses records that nobody excuses: eviction, failover to a replica that lags.
    LosesRecords,
    /// The owner names the process, not the call.
    OwnerOfProcess,
    /// No renewal, and the body runs on after its ttl.
    TtlShorterThanBody,
    /// The body is not stopped when its lease is over.
    BodyNotStopped,
    /// Without the store the body runs.
    FailsOpen,
    /// The lease is counted from the reply. In the engine.
    DeadlineFromReply,
    /// The keeper renews until the body ends, not until its end is recorded. In the engine.
    RenewalStopsAtBodyEnd,
    /// Who follows a call of its process believes an answer that is older than itself. In the engine.
    OldAnswerBelieved,
    /// Who follows a call of its process follows it for ever, also when nobody polls that any more. In the engine.
    FrozenLeaderFollowed,
}

impl Mutant {
    pub(super) const ALL: [Self; 18] = [
        Self::RemovesUnowned,
        Self::CompletesPlainly,
        Self::LooksThenPuts,
        Self::NoOwnRecordCheck,
        Self::NewOwnerForRetry,
        Self::SetsWithoutExpiry,
        Self::RenewsUnowned,
        Self::TimedOutCompletionReleased,
        Self::NoPayloadCheck,
        Self::LosesRecords,
        Self::OwnerOfProcess,
        Self::TtlShorterThanBody,
        Self::BodyNotStopped,
        Self::FailsOpen,
        Self::DeadlineFromReply,
        Self::RenewalStopsAtBodyEnd,
        Self::OldAnswerBelieved,
        Self::FrozenLeaderFollowed,
    ];
}

impl Mutant {
    /// The promises that it must be seen to break: another one would tell of the checks, not of it.
    pub(super) fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::RemovesUnowned => &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS],
            Self::CompletesPlainly | Self::LooksThenPuts => {
                &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS, TRUE]
            }
            Self::TimedOutCompletionReleased => &[DONE_STAYS, KEY_STAYS, RECORDED],
            Self::NoOwnRecordCheck
            | Self::NewOwnerForRetry
            | Self::NoPayloadCheck
            | Self::OldAnswerBelieved => &[TRUE],
            Self::SetsWithoutExpiry => &[NOT_FOR_EVER],
            Self::RenewsUnowned => &[RENEWED, ONE_BODY, AFTER_LEASE, BESIDE, KEY_STAYS],
            Self::LosesRecords => &[ONE_BODY, BESIDE, KEY_STAYS, DONE_STAYS],
            Self::OwnerOfProcess => &[OWN_CLAIM, ONE_BODY, BESIDE, OWN_RECORD],
            Self::TtlShorterThanBody | Self::BodyNotStopped => &[AFTER_LEASE, BESIDE],
            Self::DeadlineFromReply => &[OWN_CLAIM, AFTER_LEASE, BESIDE],
            Self::FailsOpen => &[OWN_CLAIM],
            Self::RenewalStopsAtBodyEnd => &[RENEWED, KEY_STAYS],
            Self::FrozenLeaderFollowed => &[IN_TIME, ENDS],
        }
    }
}

/// A store that does what a mutant protocol would.
#[derive(Debug)]
pub(super) struct MutantStore {
    link: Link,
    mutant: Mutant,
    /// What the engine believes to have claimed with, and what it did.
    claimed: Mutex<BTreeMap<Bytes, Bytes>>,
}

impl MutantStore {
    pub(super) fn new(link: Link, mutant: Mutant) -> Self {
        Self {
            link,
            mutant,
            claimed: Mutex::default(),
        }
    }

    /// A record as it is sent.
    fn sent(&self, record: &Bytes) -> Bytes {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.get(record).unwrap_or(record).clone()
    }

    /// A record as it is read.
    fn read(&self, record: Bytes) -> Bytes {
        match self.mutant {
            Mutant::NoPayloadCheck => without_payload(&record),
            _ => record,
        }
    }

    fn swapped(&self, swap: Swap) -> Swap {
        match swap {
            Swap::Other(record) => Swap::Other(self.read(record)),
            swap => swap,
        }
    }
}

#[async_trait]
impl Store for MutantStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        match self.mutant {
            Mutant::LooksThenPuts => match self.link.get(key).await? {
                Some(entry) if entry.value == value => Ok(Claim::Claimed),
                Some(entry) => Ok(Claim::Taken(entry.value)),
                None => {
                    let set = Op::Set {
                        value: value.clone(),
                        ttl: Some(ttl),
                    };
                    self.link
                        .swap(key, set, false)
                        .await
                        .map(|_| Claim::Claimed)
                }
            },
            Mutant::NoOwnRecordCheck => {
                let standing = self.link.get(key).await?;
                match standing.filter(|standing| standing.value == value) {
                    Some(own) => Ok(Claim::Taken(own.value)),
                    None => self.link.claim(key, value, ttl).await,
                }
            }
            Mutant::NewOwnerForRetry => {
                let sent = {
                    let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
                    let again = claimed.get(value).map_or_else(|| value.clone(), renamed);
                    claimed.insert(value.clone(), again.clone());
                    again
                };
                self.link.claim(key, &sent, ttl).await
            }
            Mutant::SetsWithoutExpiry => {
                if self.link.get(key).await?.is_some() {
                    return self.link.claim(key, value, ttl).await;
                }
                let forever = Op::Set {
                    value: value.clone(),
                    ttl: None,
                };
                self.link.swap(key, forever, false).await?;
                self.link.replace(key, value, value, ttl).await?;
                Ok(Claim::Claimed)
            }
            _ => Ok(match self.link.claim(key, value, ttl).await? {
                Claim::Taken(record) => Claim::Taken(self.read(record)),
                Claim::Claimed => Claim::Claimed,
            }),
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let completes = expected != value;
        match self.mutant {
            Mutant::CompletesPlainly if completes => {
                let set = Op::Set {
                    value: value.clone(),
                    ttl: Some(ttl),
                };
                self.link.swap(key, set, false).await
            }
            Mutant::RenewsUnowned if !completes => {
                self.link
                    .swap(
                        key,
                        Op::Touch {
                            claimed: value.clone(),
                            ttl,
                        },
                        false,
                    )
                    .await
            }
            Mutant::TimedOutCompletionReleased if completes => {
                let completion = self.link.replace(key, expected, value, ttl);
                match tokio::time::timeout(Duration::from_millis(20), completion).await {
                    Ok(Ok(swap)) => return Ok(swap),
                    Ok(Err(error)) if error.kind() != StoreErrorKind::Unknown => return Err(error),
                    _ => {}
                }
                let _ = self.link.remove(key, value).await?;
                self.link.remove(key, expected).await
            }
            _ => {
                let swap = self
                    .link
                    .replace(key, &self.sent(expected), &self.sent(value), ttl)
                    .await?;
                Ok(self.swapped(swap))
            }
        }
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        match self.mutant {
            Mutant::RemovesUnowned => {
                self.link
                    .swap(
                        key,
                        Op::Delete {
                            claimed: expected.clone(),
                        },
                        false,
                    )
                    .await
            }
            _ => Ok(self.swapped(self.link.remove(key, &self.sent(expected)).await?)),
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.link.get(key).await?;
        Ok(entry.map(|entry| Entry {
            value: self.read(entry.value),
            ..entry
        }))
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.link.subscribe(key).await
    }
}

fn without_payload(record: &Bytes) -> Bytes {
    let (Some(from), Some(to)) = (find(record, b" payload="), find(record, b" since=")) else {
        return record.clone();
    };
    Bytes::from([&record[..from], b" payload=-", &record[to..]].concat())
}

/// The same record with another time, so that it is another to the store. Its owner's call stays known.
fn renamed(record: &Bytes) -> Bytes {
    match find(record, b" by=") {
        Some(by) => Bytes::from([&record[..by], b" by=again-", &record[by + 4..]].concat()),
        None => record.clone(),
    }
}

fn find(record: &Bytes, what: &[u8]) -> Option<usize> {
    record.windows(what.len()).position(|window| window == what)
}
