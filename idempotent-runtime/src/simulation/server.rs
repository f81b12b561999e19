//! The store itself: one map, one clock, each operation at one instant.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::history::{CallId, What, Why};
use super::source;
use crate::store::{Claim, Entry, Swap};

/// What a message asks the store to do.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Claim {
        value: Bytes,
        ttl: Duration,
    },
    Replace {
        expected: Bytes,
        value: Bytes,
        ttl: Duration,
    },
    Remove {
        expected: Bytes,
    },
    Get,
    /// What no [`Store`](crate::Store) can ask for, and mutant stores do.
    Set {
        value: Bytes,
        ttl: Option<Duration>,
    },
    Touch {
        claimed: Bytes,
        ttl: Duration,
    },
    Delete {
        claimed: Bytes,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Claim(Claim),
    Swap(Swap),
    Entry(Option<Entry>),
}

/// The records, by the number of their key.
#[derive(Debug, Default)]
pub(super) struct Server {
    records: BTreeMap<usize, Standing>,
    /// How far its clock is ahead, in milliseconds.
    ahead: i64,
    pub(super) full: bool,
}

#[derive(Debug)]
struct Standing {
    value: Bytes,
    call: CallId,
    done: bool,
    /// On the store's own clock.
    expires: Option<i64>,
}

/// Something that happened to a record, and when.
pub(super) type Change = (usize, u64, What);

/// One request as it arrives.
pub(super) struct Request<'a> {
    pub(super) now: u64,
    pub(super) sent: u64,
    pub(super) key: usize,
    pub(super) op: &'a Op,
    /// Who sent it.
    pub(super) call: CallId,
}

impl Server {
    /// Executes a request; `None` if there is no room for what it puts.
    pub(super) fn execute(
        &mut self,
        request: &Request<'_>,
        log: &mut Vec<Change>,
    ) -> Option<Answer> {
        let Request { now, key, .. } = *request;
        self.expire(now, log);
        let standing = self
            .records
            .get(&key)
            .map(|standing| standing.value.clone());
        Some(match request.op {
            Op::Claim { value, ttl } => Answer::Claim(match standing {
                _ if self.full && standing.is_none() => return None,
                None => {
                    self.put(request, value, Some(*ttl), log);
                    Claim::Claimed
                }
                Some(standing) if standing == value => Claim::Claimed,
                // As `SET … NX GET` of a Redis that is full.
                Some(_) if self.full => return None,
                Some(standing) => Claim::Taken(standing),
            }),
            Op::Replace {
                expected,
                value,
                ttl,
            } => Answer::Swap(match standing {
                None => Swap::Absent,
                Some(standing) if standing == expected && expected == value => {
                    self.touch(request, *ttl, log);
                    Swap::Done
                }
                Some(standing) if standing == value => Swap::Done,
                Some(_) if self.full => return None,
                Some(standing) if standing == expected => {
                    self.put(request, value, Some(*ttl), log);
                    Swap::Done
                }
                Some(standing) => Swap::Other(standing),
            }),
            Op::Remove { expected } => Answer::Swap(match standing {
                None => Swap::Absent,
                Some(standing) if standing == expected => {
                    self.lose(key, now, Why::Changed(request.call), log);
                    Swap::Done
                }
                Some(standing) => Swap::Other(standing),
            }),
            Op::Get => Answer::Entry(self.records.get(&key).map(|standing| Entry {
                value: standing.value.clone(),
                ttl: standing.expires.map(|expires| {
                    let left = expires - self.clock(now);
                    Duration::from_millis(u64::try_from(left).unwrap_or_default())
                }),
            })),
            Op::Set { value, ttl } => {
                self.put(request, value, *ttl, log);
                Answer::Swap(Swap::Done)
            }
            Op::Touch { ttl, .. } => {
                self.touch(request, *ttl, log);
                Answer::Swap(Swap::Done)
            }
            Op::Delete { .. } => {
                self.lose(key, now, Why::Changed(request.call), log);
                Answer::Swap(Swap::Done)
            }
        })
    }

    /// Loses what has expired.
    pub(super) fn expire(&mut self, now: u64, log: &mut Vec<Change>) {
        let clock = self.clock(now);
        let ahead = self.ahead;
        self.records.retain(|key, standing| {
            let Some(expires) = standing.expires.filter(|expires| *expires <= clock) else {
                return true;
            };
            let at = u64::try_from(expires - ahead).unwrap_or_default().min(now);
            let (call, done, why) = (standing.call, standing.done, Why::Expired);
            log.push((*key, at, What::Gone { call, done, why }));
            false
        });
    }

    /// Loses a record; whether there was one.
    pub(super) fn lose(&mut self, key: usize, now: u64, why: Why, log: &mut Vec<Change>) -> bool {
        self.expire(now, log);
        let Some(Standing { call, done, .. }) = self.records.remove(&key) else {
            return false;
        };
        log.push((key, now, What::Gone { call, done, why }));
        true
    }

    /// The clock jumps.
    pub(super) fn step(&mut self, by: i64, now: u64, log: &mut Vec<Change>) {
        self.expire(now, log);
        self.ahead += by;
        let clock = self.clock(now);
        let over = |standing: &Standing| standing.expires.is_some_and(|expires| expires <= clock);
        let lost: Vec<_> = self
            .records
            .iter()
            .filter(|(_, record)| over(record))
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            let Some(Standing { call, done, .. }) = self.records.remove(&key) else {
                continue;
            };
            log.push((
                key,
                now,
                What::Gone {
                    call,
                    done,
                    why: Why::Forgotten,
                },
            ));
        }
        for (key, standing) in &self.records {
            let until = self.ends(standing);
            let (call, done) = (standing.call, standing.done);
            log.push((*key, now, What::Stands { call, done, until }));
        }
    }

    /// The keys whose records never expire.
    pub(super) fn immortal(&self) -> Vec<usize> {
        let immortal = self
            .records
            .iter()
            .filter(|(_, record)| record.expires.is_none());
        immortal.map(|(key, _)| *key).collect()
    }

    /// When the last record is gone.
    pub(super) fn empty_at(&self) -> u64 {
        self.records
            .values()
            .filter_map(|record| self.ends(record))
            .max()
            .unwrap_or_default()
    }

    fn put(
        &mut self,
        request: &Request<'_>,
        value: &Bytes,
        ttl: Option<Duration>,
        log: &mut Vec<Change>,
    ) {
        let &Request {
            now,
            sent,
            key,
            call,
            ..
        } = request;
        let done = value.starts_with(b"idem1 D");
        self.lose(key, now, Why::Changed(call), log);
        let expires = ttl.map(|ttl| self.clock(now) + whole_millis(ttl));
        let standing = Standing {
            value: value.clone(),
            call,
            done,
            expires,
        };
        let until = self.ends(&standing);
        self.records.insert(key, standing);
        log.push((
            key,
            now,
            What::Put {
                call,
                done,
                sent,
                until,
            },
        ));
    }

    fn touch(&mut self, request: &Request<'_>, ttl: Duration, log: &mut Vec<Change>) {
        let &Request { now, sent, key, .. } = request;
        let expires = self.clock(now) + whole_millis(ttl);
        let ahead = self.ahead;
        if let Some(standing) = self.records.get_mut(&key) {
            standing.expires = Some(expires);
            let until = u64::try_from(expires - ahead).unwrap_or_default();
            log.push((
                key,
                now,
                What::Touched {
                    call: standing.call,
                    sent,
                    until,
                },
            ));
        }
    }

    fn clock(&self, now: u64) -> i64 {
        i64::try_from(now)
            .unwrap_or(i64::MAX)
            .saturating_add(self.ahead)
    }

    fn ends(&self, standing: &Standing) -> Option<u64> {
        let expires = standing.expires?;
        Some(u64::try_from(expires - self.ahead).unwrap_or_default())
    }
}

/// The call whose record it is.
pub(super) fn call_of(record: &Bytes) -> Option<CallId> {
    // `idem1 R owner=` and 32 digits.
    let owner = str::from_utf8(record.get(14..46)?).ok()?;
    source::made_by(u128::from_str_radix(owner, 16).ok()?)
}

/// A store that counts in milliseconds rounds up.
fn whole_millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(i64::MAX / 4)
}
