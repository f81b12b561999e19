//! The simulated store: one map and one clock. Each operation happens at one instant.

mod expiry;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::Mutant;
use super::history::{CallId, Kind, OPERATOR, RemovalCause, line_of};
use super::net::FENCES;
use super::op::{Answer, Op};
use super::source::runs_mutant;
use crate::record::fence::{FenceLine, FenceState};
use crate::record::token as record;
use crate::store::fencing::fence_ttl;
use crate::store::{Claim, Entry, FencedClaim, Swap};

/// The records, by the numbers of their keys.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) records: BTreeMap<usize, Stored>,
    /// How far the clock of the store is ahead, in milliseconds.
    ahead: i64,
    pub(super) full: bool,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) value: Bytes,
    call: CallId,
    done: bool,
    /// By the clock of the store.
    expires: Option<i64>,
}

/// A change of a record: its key, its time, and what happened.
pub(super) type Change = (usize, u64, Kind);

/// One request as it arrives.
pub(super) struct Request<'a> {
    pub(super) now: u64,
    pub(super) sent: u64,
    pub(super) key: usize,
    pub(super) op: &'a Op,
    /// The sender.
    pub(super) call: CallId,
}

impl Server {
    /// Executes a request; `None` if the store has no room for its record.
    pub(super) fn execute(
        &mut self,
        request: &Request<'_>,
        log: &mut Vec<Change>,
    ) -> Option<Answer> {
        let answer = self.apply(request, log)?;
        if let (Op::Replace { value, .. }, Answer::Swap(Swap::Done)) = (request.op, &answer)
            && let Some(key) = request.key.checked_sub(FENCES)
            && let Ok(line) = FenceLine::read(value)
        {
            let number = line.fence;
            log.push((key, request.now, Kind::FenceEnded { number }));
        }
        Some(answer)
    }

    fn apply(&mut self, request: &Request<'_>, log: &mut Vec<Change>) -> Option<Answer> {
        let Request { now, key, .. } = *request;
        self.expire(now, log);
        // The records of fences are in the history by the numbers that are drawn.
        let quiet = &mut Vec::new();
        let log = if key >= FENCES { quiet } else { log };
        let stored = self.records.get(&key).map(|stored| stored.value.clone());
        Some(match request.op {
            Op::Claim { value, ttl } => Answer::Claim(match stored {
                _ if self.full && stored.is_none() => return None,
                None => {
                    self.put(request, value, Some(*ttl), log);
                    Claim::Claimed
                }
                Some(stored) if stored == value => Claim::Claimed,
                // Like `SET … NX GET` on a full Redis.
                Some(_) if self.full => return None,
                Some(stored) => Claim::Taken(stored),
            }),
            Op::ClaimAll { claims, ttl } => self.claim_all(request, claims, *ttl, log)?,
            Op::ClaimAny { claims, ttl } => self.claim_any(request, claims, *ttl, log)?,
            Op::Replace {
                expected,
                value,
                ttl,
            } => Answer::Swap(match stored {
                None => Swap::Absent,
                Some(stored) if stored == expected && expected == value => {
                    self.touch(request, *ttl, log);
                    Swap::Done
                }
                Some(stored) if stored == value => Swap::Done,
                Some(_) if self.full => return None,
                Some(stored) if stored == expected => {
                    self.put(request, value, Some(*ttl), log);
                    Swap::Done
                }
                Some(stored) => Swap::Other(stored),
            }),
            Op::Remove { expected } => Answer::Swap(match stored {
                None => Swap::Absent,
                Some(stored) if stored == expected => {
                    self.lose(key, now, RemovalCause::Changed(request.call), log);
                    Swap::Done
                }
                Some(stored) => Swap::Other(stored),
            }),
            Op::Exchange { expected, value } => Answer::Swap(match stored {
                None => Swap::Absent,
                Some(stored) if stored == value => Swap::Done,
                Some(_) if self.full => return None,
                Some(stored) if stored == expected => {
                    self.exchange(request, value, log);
                    Swap::Done
                }
                Some(stored) => Swap::Other(stored),
            }),
            Op::Get => Answer::Entry(self.records.get(&key).map(|stored| Entry {
                value: stored.value.clone(),
                ttl: stored.expires.map(|expires| {
                    let remaining = expires - self.clock(now);
                    Duration::from_millis(u64::try_from(remaining).unwrap_or_default())
                }),
            })),
            Op::ClaimFenced { value, ttl } => {
                match self.claim((request, key), value, *ttl, log)? {
                    Answer::Claim(Claim::Taken(other)) => Answer::Fenced(FencedClaim::Taken(other)),
                    _ => self.draw(request, value, log),
                }
            }
            Op::Draw { value } => self.draw(request, value, log),
            Op::Set { value, ttl } => {
                self.put(request, value, *ttl, log);
                Answer::Swap(Swap::Done)
            }
            Op::Touch { ttl, .. } => {
                self.touch(request, *ttl, log);
                Answer::Swap(Swap::Done)
            }
            Op::Delete { .. } => {
                self.lose(key, now, RemovalCause::Changed(request.call), log);
                Answer::Swap(Swap::Done)
            }
            Op::Overwrite { value, ttl } => {
                if stored.is_none() {
                    let Some(ttl) = ttl else {
                        return Some(Answer::Swap(Swap::Absent));
                    };
                    self.issue(key, now, *ttl);
                }
                self.exchange(request, value, log);
                Answer::Swap(Swap::Done)
            }
        })
    }

    pub(super) fn claim(
        &mut self,
        (request, key): (&Request<'_>, usize),
        value: &Bytes,
        ttl: Duration,
        log: &mut Vec<Change>,
    ) -> Option<Answer> {
        let value = value.clone();
        let op = &Op::Claim { value, ttl };
        self.apply(
            &Request {
                key,
                op,
                ..*request
            },
            log,
        )
    }

    /// Draws a number for a claim.
    fn draw(&mut self, request: &Request<'_>, claim: &Bytes, log: &mut Vec<Change>) -> Answer {
        let (now, key) = (request.now, FENCES + request.key);
        let stored = self.records.get(&key).map(|stored| stored.value.clone());
        let last = stored
            .as_ref()
            .and_then(|stored| FenceLine::read(stored).ok());
        let own = last.filter(|last| last.open_claim() == Some(claim));
        if let Some(own) = own.filter(|_| !runs_mutant(Mutant::FenceNewForRepeat)) {
            return Answer::Fenced(FencedClaim::Claimed(own.into()));
        }
        let micros = (self.clock(now) + CLOCK_AT_START) * 1000;
        let expires = runs_mutant(Mutant::FenceExpires);
        let mut next = FenceLine::next(last, claim, if expires { 0 } else { micros });
        if runs_mutant(Mutant::FenceIsClock) {
            next.fence = micros;
        }
        if runs_mutant(Mutant::FenceHidesDead) {
            next.state = FenceState::Open(claim);
        }
        let (number, call) = (next.fence, request.call);
        log.push((request.key, now, Kind::Drawn { call, number }));
        let of_claim = self.records.get(&request.key).and_then(|it| it.expires);
        let stored = Stored {
            value: next.write(),
            // No call: `fenced` checks the numbers.
            call: OPERATOR,
            done: false,
            expires: match of_claim {
                Some(of_claim) if expires => Some(of_claim),
                _ => Some(self.clock(now) + whole_millis(fence_ttl(Duration::ZERO))),
            },
        };
        self.records.insert(key, stored);
        Answer::Fenced(FencedClaim::Claimed(next.into()))
    }

    /// Stores the line of a new token.
    pub(super) fn issue(&mut self, key: usize, now: u64, ttl: Duration) {
        let stored = Stored {
            value: record::FRESH,
            // No call: `redemptions` checks the lines of tokens.
            call: OPERATOR,
            done: false,
            expires: Some(self.clock(now) + whole_millis(ttl)),
        };
        self.records.insert(key, stored);
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
        let done = value.starts_with(b"idem2 D");
        self.lose(key, now, RemovalCause::Changed(call), log);
        let expires = ttl.map(|ttl| self.clock(now) + whole_millis(ttl));
        let stored = Stored {
            value: value.clone(),
            call,
            done,
            expires,
        };
        let until = self.ends(&stored);
        self.records.insert(key, stored);
        log.push((
            key,
            now,
            Kind::Put {
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
        if let Some(stored) = self.records.get_mut(&key) {
            stored.expires = Some(expires);
            let until = u64::try_from(expires - ahead).unwrap_or_default();
            log.push((
                key,
                now,
                Kind::Touched {
                    call: stored.call,
                    sent,
                    until,
                },
            ));
        }
    }

    /// Replaces the line of a token. The expiry does not change.
    fn exchange(&mut self, request: &Request<'_>, value: &Bytes, log: &mut Vec<Change>) {
        if let Some(stored) = self.records.get_mut(&request.key) {
            stored.value = value.clone();
            let (line, by) = (line_of(value), request.call);
            log.push((request.key, request.now, Kind::Token { line, by }));
        }
    }

    fn clock(&self, now: u64) -> i64 {
        i64::try_from(now)
            .unwrap_or(i64::MAX)
            .saturating_add(self.ahead)
    }

    fn ends(&self, stored: &Stored) -> Option<u64> {
        let expires = stored.expires?;
        Some(u64::try_from(expires - self.ahead).unwrap_or_default())
    }
}

/// The clock of the store when a run begins, in milliseconds. It may be set back.
const CLOCK_AT_START: i64 = 1_000_000;

/// A store that counts in milliseconds rounds up.
fn whole_millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(i64::MAX / 4)
}
