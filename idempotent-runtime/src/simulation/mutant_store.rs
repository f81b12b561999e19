//! The store of a mutant, at the border of the engine.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::Mutant;
use super::link::Link;
use super::op::Op;
use crate::record::owner::Owner;
use crate::record::token;
use crate::store::{Claim, ClaimAny, Entry, FencedClaim, Store, StoreError, StoreErrorKind, Swap};

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

    /// Redeems a token, or gives it back.
    async fn exchanged(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let redeems = token::read(value) == Some(token::TokenState::Used);
        let overwrite = |ttl| Op::Overwrite {
            value: value.clone(),
            ttl,
        };
        match self.mutant {
            Mutant::RedeemsAnyLine if redeems => self.link.swap(key, overwrite(None), false).await,
            Mutant::ReturnsAnyLine if !redeems => self.link.swap(key, overwrite(None), false).await,
            Mutant::ReturnsExpired if !redeems => {
                match self.link.exchange(key, expected, value).await? {
                    Swap::Absent => {
                        let again = overwrite(Some(Duration::from_secs(4)));
                        self.link.swap(key, again, false).await
                    }
                    swap => Ok(swap),
                }
            }
            Mutant::ReturnsAsFresh if !redeems => {
                self.link.exchange(key, expected, &token::FRESH).await
            }
            Mutant::NeverTakesBack if !redeems => Ok(Swap::Done),
            Mutant::TakesBackOnce
                if !redeems && token::read(expected) == Some(token::TokenState::Free) =>
            {
                Ok(Swap::Done)
            }
            Mutant::OwnerPerAttempt if redeems => {
                let sent = {
                    let mut sent = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
                    let again = match sent.get(value) {
                        Some(_) => token::used(Owner::random()),
                        None => value.clone(),
                    };
                    sent.insert(value.clone(), again.clone());
                    again
                };
                self.link.exchange(key, expected, &sent).await
            }
            Mutant::RunsWithoutAnswer if redeems => {
                let redemption = self.link.exchange(key, expected, value);
                match tokio::time::timeout(Duration::from_millis(20), redemption).await {
                    Ok(Ok(swap)) => Ok(swap),
                    _ => Ok(Swap::Done),
                }
            }
            _ => self.link.exchange(key, &self.sent(expected), value).await,
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

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        // Its claim of one key is wrong.
        if self.mutant == Mutant::LooksThenPuts {
            return Ok(ClaimAny::NotTogether);
        }
        self.link.claim_any(claims, ttl).await
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        self.link.claim_fenced(key, fence_key, value, ttl).await
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

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.exchanged(key, expected, value).await
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
    let line = record
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let mut fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let [.., payload, codec] = fields.as_mut_slice() else {
        return record.clone();
    };
    let (is_claim, rest) = (*codec == b"-", &record[line.len()..]);
    *payload = b"-";
    match fields.len() {
        8 if is_claim => Bytes::from([&fields[..6].join(&b' ')[..], rest].concat()),
        8 => Bytes::from([&fields.join(&b' ')[..], rest].concat()),
        _ => record.clone(),
    }
}

/// The same record with another holder, so that it differs for the store. The call of its owner stays known.
fn renamed(record: &Bytes) -> Bytes {
    let mut spaces = (0..record.len()).filter(|at| record[*at] == b' ');
    match spaces.nth(4) {
        Some(before) if record.starts_with(b"idem2 ") => {
            let (first, holder) = record.split_at(before + 1);
            Bytes::from([first, b"again-", holder].concat())
        }
        _ => record.clone(),
    }
}
