//! Claims of several keys in the simulated store.

use std::time::Duration;

use bytes::Bytes;

use super::Mutant;
use super::op::Answer;
use super::server::{Change, Request, Server};
use super::source::runs_mutant;
use crate::store::{ClaimAll, ClaimAny};

impl Server {
    pub(super) fn claim_all(
        &mut self,
        request: &Request<'_>,
        claims: &[(usize, Bytes)],
        ttl: Duration,
        log: &mut Vec<Change>,
    ) -> Option<Answer> {
        for (at, (key, value)) in claims.iter().enumerate() {
            let stored = self.records.get(key);
            if let Some(other) = stored.filter(|stored| stored.value != value) {
                return Some(Answer::All(ClaimAll::Taken(at, other.value.clone())));
            }
        }
        for (key, value) in claims {
            self.claim((request, *key), value, ttl, log)?;
        }
        Some(Answer::All(ClaimAll::Claimed))
    }

    pub(super) fn claim_any(
        &mut self,
        request: &Request<'_>,
        claims: &[(usize, Bytes)],
        ttl: Duration,
        log: &mut Vec<Change>,
    ) -> Option<Answer> {
        let stored = claims.iter();
        let stored =
            stored.map(|(key, _)| self.records.get(key).map(|stored| stored.value.clone()));
        let stored: Vec<_> = stored.collect();
        let is_own = |(stored, (_, value)): (&Option<Bytes>, &(usize, Bytes))| {
            stored.as_ref() == Some(value) || stored.is_some() && runs_mutant(Mutant::AnyIsTaken)
        };
        if let Some(at) = stored.iter().zip(claims).position(is_own) {
            return Some(Answer::Any(ClaimAny::Claimed(at)));
        }
        let Some(at) = stored.iter().position(Option::is_none) else {
            let taken = stored.into_iter().flatten().collect();
            return Some(Answer::Any(ClaimAny::Taken(taken)));
        };
        let (key, value) = &claims[at];
        self.claim((request, *key), value, ttl, log)?;
        Some(Answer::Any(ClaimAny::Claimed(at)))
    }
}
