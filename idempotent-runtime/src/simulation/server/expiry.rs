//! Records that expire or are lost, and a clock that moves.

use super::{Change, Server, Stored};
use crate::simulation::history::{Kind, RemovalCause};
use crate::simulation::net::{FENCES, KEYS};

impl Server {
    /// Removes expired records.
    pub(in crate::simulation) fn expire(&mut self, now: u64, log: &mut Vec<Change>) {
        let clock = self.clock(now);
        let ahead = self.ahead;
        self.records.retain(|key, stored| {
            let Some(expires) = stored.expires.filter(|expires| *expires <= clock) else {
                return true;
            };
            let at = u64::try_from(expires - ahead).unwrap_or_default().min(now);
            let (call, done, cause) = (stored.call, stored.done, RemovalCause::Expired);
            if *key < FENCES {
                log.push((*key, at, Kind::Removed { call, done, cause }));
            }
            false
        });
    }

    /// Removes a record. Returns whether there was one.
    pub(in crate::simulation) fn lose(
        &mut self,
        key: usize,
        now: u64,
        cause: RemovalCause,
        log: &mut Vec<Change>,
    ) -> bool {
        self.expire(now, log);
        let Some(Stored { call, done, .. }) = self.records.remove(&key) else {
            return false;
        };
        log.push((key, now, Kind::Removed { call, done, cause }));
        true
    }

    /// Moves the clock.
    pub(in crate::simulation) fn step(&mut self, by: i64, now: u64, log: &mut Vec<Change>) {
        self.expire(now, log);
        self.ahead += by;
        let clock = self.clock(now);
        let has_expired = |stored: &Stored| stored.expires.is_some_and(|expires| expires <= clock);
        let lost: Vec<_> = self
            .records
            .iter()
            .filter(|(_, record)| has_expired(record))
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            let Some(Stored { call, done, .. }) = self.records.remove(&key) else {
                continue;
            };
            let cause = RemovalCause::Forgotten;
            log.push((key, now, Kind::Removed { call, done, cause }));
        }
        for (key, stored) in &self.records {
            let until = self.ends(stored);
            let (call, done) = (stored.call, stored.done);
            log.push((*key, now, Kind::ExpiryMoved { call, done, until }));
        }
    }

    /// The keys whose records never expire.
    pub(in crate::simulation) fn immortal(&self) -> Vec<usize> {
        let immortal = self
            .records
            .iter()
            .filter(|(_, record)| record.expires.is_none());
        immortal.map(|(key, _)| *key).collect()
    }

    /// When the last record of a call expires.
    pub(in crate::simulation) fn empty_at(&self) -> u64 {
        let calls = self.records.iter().filter(|(key, _)| **key < KEYS);
        calls
            .filter_map(|(_, record)| self.ends(record))
            .max()
            .unwrap_or_default()
    }
}
