//! Mutants: wrong protocols that look right, each from a product, a recipe or a bug report. The checks must catch all of them,
//! or they prove nothing.
//!
//! Most are at the border of the engine: a store, a policy or a clock that does what the wrong protocol would do, so that the
//! engine stays clean. Five are in the engine, behind `mutant!`, which is `false` outside of these tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::link::Link;
use super::promise::{
    AFTER_LEASE, DONE_STAYS, ENDS, EXPIRES, IN_ORDER, IN_TIME, KEY_STAYS, NO_FAULT, NO_STUCK,
    NO_TASK, NOT_SENT, ONE_BODY, ONE_OF_A_KEY, ONLY_RENEWALS, OVERTAKEN, OWN_ANSWER, OWN_CLAIM,
    OWN_RECORD, RECORDED, RENEWED, TRUE_ANSWER, TRUE_DENIAL, USABLE,
};
use super::server::Op;
use crate::batch::tests::Broken;
use crate::store::{Claim, Entry, Store, StoreError, StoreErrorKind, Swap};

/// One wrong protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The end of a call deletes any record of the key (`DEL lock`), also the record of the next holder after the lease has
    /// expired.
    RemovesUnowned,
    /// The end of a call sets its result without comparing the stored record.
    CompletesPlainly,
    /// A claim reads, then writes.
    LooksThenPuts,
    /// A claim that is sent again after a lost reply treats its own record as the record of another call.
    NoOwnRecordCheck,
    /// A claim that is sent again has another owner. The effect is the same.
    NewOwnerForRetry,
    /// A claim is stored first, and gets its expiry in a second command (`SETNX`, `EXPIRE`).
    SetsWithoutExpiry,
    /// A renewal sets the expiry of any record of the key (`EXPIRE lock`).
    RenewsUnowned,
    /// A completion without an answer counts as a failure, and the record is removed.
    TimedOutCompletionReleased,
    /// The record does not contain the payload.
    NoPayloadCheck,
    /// The store loses records without an excuse: eviction, failover to a lagging replica.
    LosesRecords,
    /// The owner names the process, not the call.
    OwnerOfProcess,
    /// There is no renewal, and the body continues after its ttl.
    TtlShorterThanBody,
    /// The body does not stop when its lease has expired.
    BodyNotStopped,
    /// The body runs although the store is unavailable.
    FailsOpen,
    /// The lease is counted from the reply. In the engine.
    DeadlineFromReply,
    /// The renewal stops when the body returns, not when its end is recorded. In the engine.
    RenewalStopsAtBodyEnd,
    /// A follower trusts an answer that is older than itself. In the engine.
    OldAnswerBelieved,
    /// A follower waits forever for a leader that is not polled any more. In the engine.
    FrozenLeaderFollowed,
    /// A held key becomes free at the end of its call, as after a failure. In the engine.
    HoldFreesKey,
    /// After a fault in a batch all its operations count as done.
    BatchFaultIsDone,
    /// A fault of an operation is the answer to all operations of its batch.
    BatchFaultIsShared,
    /// The callers of a batch get each other's answers. In the engine of batches, as all mutants below.
    BatchShiftsAnswers,
    /// An operation is sent although its caller was dropped before.
    BatchSendsDropped,
    /// A batch has two operations of a key.
    BatchRepeatsKeys,
    /// An operation that waits for its key goes behind later operations, such as a claim behind its removal.
    BatchReorders,
    /// A batch without callers keeps its place, so that later operations wait for an answer that never comes.
    BatchKeepsAbandoned,
    /// A batch ends with any of its callers.
    BatchEndsWithCaller,
    /// An operation that was sent counts as not applied when its runtime ends.
    BatchDeniesSent,
    /// What waits stays in the queue when its runtime ends.
    BatchLeavesQueue,
    /// Renewals go in the batches of other operations. Not in the engine.
    BatchMixesRenewals,
}

impl Mutant {
    pub(super) const ALL: [Self; 30] = [
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
        Self::HoldFreesKey,
        Self::BatchFaultIsDone,
        Self::BatchFaultIsShared,
        Self::BatchShiftsAnswers,
        Self::BatchSendsDropped,
        Self::BatchRepeatsKeys,
        Self::BatchReorders,
        Self::BatchKeepsAbandoned,
        Self::BatchEndsWithCaller,
        Self::BatchDeniesSent,
        Self::BatchLeavesQueue,
        Self::BatchMixesRenewals,
    ];
}

impl Mutant {
    /// The promises that the mutant breaks. Another broken promise would mean that the checks are wrong.
    pub(super) fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::RemovesUnowned => &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS],
            Self::CompletesPlainly | Self::LooksThenPuts => {
                &[OWN_RECORD, DONE_STAYS, ONE_BODY, KEY_STAYS, TRUE_ANSWER]
            }
            Self::TimedOutCompletionReleased => &[DONE_STAYS, KEY_STAYS, RECORDED],
            Self::NoOwnRecordCheck
            | Self::NewOwnerForRetry
            | Self::NoPayloadCheck
            | Self::OldAnswerBelieved => &[TRUE_ANSWER],
            Self::SetsWithoutExpiry => &[EXPIRES],
            Self::RenewsUnowned => &[RENEWED, ONE_BODY, AFTER_LEASE, OVERTAKEN, KEY_STAYS],
            Self::LosesRecords => &[ONE_BODY, OVERTAKEN, KEY_STAYS, DONE_STAYS],
            Self::OwnerOfProcess => &[OWN_CLAIM, ONE_BODY, OVERTAKEN, OWN_RECORD],
            Self::TtlShorterThanBody | Self::BodyNotStopped => &[AFTER_LEASE, OVERTAKEN],
            Self::DeadlineFromReply => &[OWN_CLAIM, AFTER_LEASE, OVERTAKEN],
            Self::FailsOpen => &[OWN_CLAIM],
            Self::RenewalStopsAtBodyEnd => &[RENEWED, KEY_STAYS],
            Self::FrozenLeaderFollowed => &[IN_TIME, ENDS],
            Self::HoldFreesKey => &[KEY_STAYS],
            Self::BatchFaultIsDone | Self::BatchShiftsAnswers => &[OWN_CLAIM, OWN_ANSWER],
            Self::BatchFaultIsShared => &[OWN_ANSWER],
            Self::BatchSendsDropped => &[NOT_SENT],
            Self::BatchRepeatsKeys => &[ONE_OF_A_KEY],
            Self::BatchReorders => &[IN_ORDER],
            Self::BatchKeepsAbandoned => &[USABLE, NO_TASK],
            Self::BatchEndsWithCaller => &[NO_FAULT, OWN_ANSWER],
            Self::BatchDeniesSent => &[TRUE_DENIAL],
            Self::BatchLeavesQueue => &[NO_STUCK],
            Self::BatchMixesRenewals => &[ONLY_RENEWALS],
        }
    }

    /// The broken variant of the engine of batches.
    pub(super) fn of_batches(self) -> Option<Broken> {
        Some(match self {
            Self::BatchShiftsAnswers => Broken::ShiftsAnswers,
            Self::BatchSendsDropped => Broken::SendsDropped,
            Self::BatchRepeatsKeys => Broken::RepeatsKeys,
            Self::BatchReorders => Broken::Reorders,
            Self::BatchKeepsAbandoned => Broken::KeepsAbandoned,
            Self::BatchEndsWithCaller => Broken::DropsBatchWithCaller,
            Self::BatchDeniesSent => Broken::DeniesSent,
            Self::BatchLeavesQueue => Broken::LeavesQueue,
            _ => return None,
        })
    }
}

/// A store that does what the wrong protocol would do.
#[derive(Debug)]
pub(super) struct MutantStore {
    link: Link,
    mutant: Mutant,
    /// The records that the engine sent as claims, and the records that were sent in their place.
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

    /// The record that is sent for this record.
    fn sent(&self, record: &Bytes) -> Bytes {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.get(record).unwrap_or(record).clone()
    }

    /// The record that is read for this record.
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
                let stored = self.link.get(key).await?;
                match stored.filter(|stored| stored.value == value) {
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

/// The same record with another holder, so that it differs for the store. The call of its owner stays known.
fn renamed(record: &Bytes) -> Bytes {
    match find(record, b" by=") {
        Some(by) => Bytes::from([&record[..by], b" by=again-", &record[by + 4..]].concat()),
        None => record.clone(),
    }
}

fn find(record: &Bytes, what: &[u8]) -> Option<usize> {
    record.windows(what.len()).position(|window| window == what)
}
