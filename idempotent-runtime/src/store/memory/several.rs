//! Claims of several keys in memory, with the locks of all their shards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::shard::Shard;
use super::{SWEPT_PER_ADDITION, Shards, lock, place};
use crate::error::store::StoreError;
use crate::store::answer::{ClaimAll, ClaimAny};
use crate::store::key::Key;
use crate::sync::MutexGuard;

impl Shards {
    /// Claims all keys or none, with the locks of all their shards.
    pub(super) fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
        now: Instant,
    ) -> Result<ClaimAll, StoreError> {
        let keys: Vec<_> = claims.iter().map(|(key, _)| Key::new(key)).collect();
        loop {
            let mut locked = self.lock_all(&keys);
            let mut free = Vec::new();
            for (at, (key, (_, value))) in keys.iter().zip(claims).enumerate() {
                match self.locked(&mut locked, key).get(key, now) {
                    Some(stored) if stored.value != **value => {
                        return Ok(ClaimAll::Taken(at, stored.value));
                    }
                    Some(_) => {}
                    None => free.push((key, *value)),
                }
            }
            let stored = free.iter().take_while(|(key, value)| {
                let shard = self.locked(&mut locked, key);
                self.sweep(shard, now, SWEPT_PER_ADDITION);
                let claim = shard.claim(key, value, ttl, now, || self.reserve());
                claim.is_some()
            });
            let stored = stored.count();
            if stored == free.len() {
                return Ok(ClaimAll::Claimed);
            }
            for (key, value) in &free[..stored] {
                let (_, removed) = self.locked(&mut locked, key).remove(key, value, now);
                self.release(removed);
            }
            drop(locked);
            self.make_room(now)?;
        }
    }

    /// Claims the first free key, with the locks of the shards of all keys.
    pub(super) fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
        now: Instant,
    ) -> Result<ClaimAny, StoreError> {
        let keys: Vec<_> = claims.iter().map(|(key, _)| Key::new(key)).collect();
        loop {
            let mut locked = self.lock_all(&keys);
            let (mut free, mut taken) = (None, Vec::new());
            for (at, (key, (_, value))) in keys.iter().zip(claims).enumerate() {
                match self.locked(&mut locked, key).get(key, now) {
                    Some(stored) if stored.value == **value => return Ok(ClaimAny::Claimed(at)),
                    Some(stored) => taken.push(stored.value),
                    None => free = free.or(Some(at)),
                }
            }
            let Some(at) = free else {
                return Ok(ClaimAny::Taken(taken));
            };
            let (key, value) = (&keys[at], claims[at].1);
            let shard = self.locked(&mut locked, key);
            self.sweep(shard, now, SWEPT_PER_ADDITION);
            let claim = shard.claim(key, value, ttl, now, || self.reserve());
            if claim.is_some() {
                return Ok(ClaimAny::Claimed(at));
            }
            drop(locked);
            self.make_room(now)?;
        }
    }

    /// Locks the shards of these keys in the order of the shards, so that two calls cannot deadlock.
    fn lock_all(&self, keys: &[Key]) -> LockedShards<'_> {
        let places: BTreeSet<_> = keys.iter().map(place).collect();
        let locked = places.into_iter().map(|at| (at, lock(&self.all[at])));
        locked.collect()
    }

    /// The shard of `key`, which is one of these.
    fn locked<'s, 'l>(&'s self, locked: &'l mut LockedShards<'s>, key: &Key) -> &'l mut Shard {
        let at = place(key);
        locked.entry(at).or_insert_with(|| lock(&self.all[at]))
    }
}

/// Shards by their places.
type LockedShards<'s> = BTreeMap<usize, MutexGuard<'s, Shard>>;
