//! The records that share a lock.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use tokio::time::Instant;

use crate::store::answer::{Claim, Entry, Swap};
use crate::store::key::Key;

#[derive(Default)]
pub(super) struct Shard {
    records: HashTable<MemoryRecord>,
    /// The hashes of the keys in the order in which their records expire.
    expiries: BTreeMap<Expiry, u64>,
    /// The expiry of the latest record. It joins `expiries` only when the next record is stored. Usually the record is removed
    /// before that, and then `expiries` does not change.
    latest: Option<(Expiry, u64)>,
    /// The number of the latest record. Numbers distinguish records that expire at one instant.
    last_number: u64,
}

type Expiry = (Instant, u64);

struct MemoryRecord {
    key: Key,
    value: Bytes,
    expires: Instant,
    number: u64,
}

impl MemoryRecord {
    fn is_live(&self, now: Instant) -> bool {
        now < self.expires
    }

    fn expiry(&self) -> Expiry {
        (self.expires, self.number)
    }
}

impl Shard {
    /// Claims the key; `None` if the key is free but there is no `room` for the record.
    pub(super) fn claim(
        &mut self,
        key: &Key,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
        room: impl FnOnce() -> bool,
    ) -> Option<Claim> {
        let expiry = (after(now, ttl), self.last_number + 1);
        let record = || MemoryRecord {
            key: key.clone(),
            value: value.clone(),
            expires: expiry.0,
            number: expiry.1,
        };
        let has_key = |record: &MemoryRecord| record.key == *key;
        let hash = |record: &MemoryRecord| record.key.hash();
        let expired = match self.records.entry(key.hash(), has_key, hash) {
            Place::Vacant(place) => {
                if !room() {
                    return None;
                }
                place.insert(record());
                None
            }
            Place::Occupied(place) if place.get().is_live(now) => {
                let stored = &place.get().value;
                return Some(if stored == value {
                    Claim::Claimed
                } else {
                    Claim::Taken(stored.clone())
                });
            }
            Place::Occupied(mut place) => {
                Some(std::mem::replace(place.get_mut(), record()).expiry())
            }
        };
        self.last_number = expiry.1;
        if let Some(expired) = expired {
            self.forget(expired);
        }
        self.remember(expiry, key);
        Some(Claim::Claimed)
    }

    pub(super) fn replace(
        &mut self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Swap {
        let Some(record) = self.find_live(key, now) else {
            return Swap::Absent;
        };
        if record.value != expected {
            return if record.value == value {
                Swap::Done
            } else {
                Swap::Other(record.value.clone())
            };
        }
        let before = record.expiry();
        record.expires = after(now, ttl);
        record.value.clone_from(value);
        let expiry = record.expiry();
        self.forget(before);
        self.remember(expiry, key);
        Swap::Done
    }

    /// Replaces the value. The exact instant of expiry does not change.
    pub(super) fn exchange(
        &mut self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        now: Instant,
    ) -> Swap {
        let Some(record) = self.find_live(key, now) else {
            return Swap::Absent;
        };
        if record.value == expected {
            record.value.clone_from(value);
        }
        if record.value == value {
            Swap::Done
        } else {
            Swap::Other(record.value.clone())
        }
    }

    /// Removes the value. Also returns the number of removed records, which includes an expired record.
    pub(super) fn remove(&mut self, key: &Key, expected: &Bytes, now: Instant) -> (Swap, usize) {
        let found = self
            .records
            .find_entry(key.hash(), |record| record.key == *key);
        let Ok(found) = found else {
            return (Swap::Absent, 0);
        };
        let is_live = found.get().is_live(now);
        if is_live && found.get().value != expected {
            return (Swap::Other(found.get().value.clone()), 0);
        }
        let (record, _) = found.remove();
        self.forget(record.expiry());
        (if is_live { Swap::Done } else { Swap::Absent }, 1)
    }

    pub(super) fn get(&mut self, key: &Key, now: Instant) -> Option<Entry> {
        let record = self.find_live(key, now)?;
        Some(Entry {
            value: record.value.clone(),
            ttl: Some(record.expires - now),
        })
    }

    /// The live records whose keys begin with `prefix` and are not before `first`, in no order.
    pub(super) fn list<'a>(
        &'a self,
        prefix: &'a str,
        first: &'a str,
        now: Instant,
    ) -> impl Iterator<Item = (&'a Key, &'a Bytes, Duration)> {
        let listed = self.records.iter().filter(move |record| {
            record.key.starts_with(prefix) && &*record.key >= first && record.is_live(now)
        });
        listed.map(move |record| (&record.key, &record.value, record.expires - now))
    }

    fn find_live(&mut self, key: &Key, now: Instant) -> Option<&mut MemoryRecord> {
        let found = self
            .records
            .find_mut(key.hash(), |record| record.key == *key);
        found.filter(|record| record.is_live(now))
    }

    /// Adds the expiry of the record under `key`.
    fn remember(&mut self, expiry: Expiry, key: &Key) {
        if let Some((expiry, hash)) = self.latest.replace((expiry, key.hash())) {
            self.expiries.insert(expiry, hash);
        }
    }

    fn forget(&mut self, expiry: Expiry) {
        let latest = self.latest.take_if(|(latest, _)| *latest == expiry);
        if latest.is_none() {
            self.expiries.remove(&expiry);
        }
    }

    /// Removes up to `at_most` expired records.
    pub(super) fn sweep(&mut self, now: Instant, at_most: usize) -> usize {
        let mut swept = 0;
        while swept < at_most
            && let Some(((_, number), hash)) = self.take_expired(now)
        {
            let expired = |record: &MemoryRecord| record.number == number;
            if let Ok(found) = self.records.find_entry(hash, expired) {
                found.remove();
            }
            swept += 1;
        }
        swept
    }

    /// Removes an expired record from the order of expiry.
    fn take_expired(&mut self, now: Instant) -> Option<(Expiry, u64)> {
        let is_expired = |expiry: &Expiry| expiry.0 <= now;
        if let Some(latest) = self.latest.take_if(|(expiry, _)| is_expired(expiry)) {
            return Some(latest);
        }
        let first = self.expiries.first_entry()?;
        is_expired(first.key()).then(|| first.remove_entry())
    }

    pub(super) fn live(&self, now: Instant) -> usize {
        let expired = |expiry: &Expiry| expiry.0 <= now;
        let latest = self.latest.iter().filter(|(expiry, _)| expired(expiry));
        let others = self.expiries.range(..=(now, u64::MAX));
        self.records.len() - latest.count() - others.count()
    }
}

/// The instant `ttl` from now, or the latest that the clock can represent.
pub(super) fn after(now: Instant, ttl: Duration) -> Instant {
    let mut ttl = ttl.max(Duration::from_millis(1));
    loop {
        if let Some(instant) = now.checked_add(ttl) {
            return instant;
        }
        ttl /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn noted(shard: &Shard) -> usize {
        shard.expiries.len() + usize::from(shard.latest.is_some())
    }

    #[test]
    fn removed_and_replaced_records_leave_no_expiry_behind() {
        let mut shard = Shard::default();
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        for round in 0..1000 {
            for key in ["a", "b", "c"].map(Key::new) {
                shard.claim(&key, &value, SECOND, now, || true);
                shard.replace(&key, &value, &value, SECOND * 2, now);
                shard.replace(&key, &value, &other, SECOND * round, now);
                assert_eq!(shard.remove(&key, &value, now).1, 0);
            }
            assert_eq!((shard.records.len(), noted(&shard)), (3, 3));
            for key in ["b", "a", "c"].map(Key::new) {
                assert_eq!(shard.remove(&key, &other, now), (Swap::Done, 1));
            }
            assert_eq!((shard.records.len(), noted(&shard)), (0, 0));
        }
    }

    #[test]
    fn an_exchange_does_not_change_the_expiry() {
        let mut shard = Shard::default();
        let key = Key::new("key");
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        shard.claim(&key, &value, SECOND, now, || true);
        let tick = Duration::from_nanos(1);
        let late = now + SECOND - tick;
        for (at, expected, put) in [(now, &value, &other), (late, &other, &value)] {
            assert_eq!(shard.exchange(&key, expected, put, at), Swap::Done);
            let entry = shard.get(&key, at).unwrap();
            assert_eq!((&entry.value, entry.ttl), (put, Some(now + SECOND - at)));
        }
        let over = late + tick;
        assert_eq!(shard.exchange(&key, &value, &other, over), Swap::Absent);
        assert_eq!(shard.get(&key, over), None);
        assert_eq!(noted(&shard), 1);
    }

    #[test]
    fn expired_records_are_swept_in_the_order_of_expiry_and_a_few_at_a_time() {
        let mut shard = Shard::default();
        let (now, value) = (Instant::now(), Bytes::from("v"));
        for second in [3, 1, 5, 2, 4] {
            let key = Key::new(&second.to_string());
            shard.claim(&key, &value, SECOND * second, now, || true);
        }
        assert_eq!(shard.live(now), 5);
        let later = now + SECOND * 4;
        assert_eq!(shard.live(later), 1);
        assert_eq!(shard.sweep(later, 2), 2);
        assert_eq!((shard.records.len(), noted(&shard)), (3, 3));
        assert_eq!(shard.sweep(later, 9), 2);
        assert!(shard.get(&Key::new("5"), later).is_some());
        assert_eq!((shard.live(later), noted(&shard)), (1, 1));
    }

    #[test]
    fn an_expired_record_is_claimed_without_more_room() {
        let mut shard = Shard::default();
        let key = Key::new("k");
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        let claimed = Some(Claim::Claimed);
        assert_eq!(shard.claim(&key, &value, SECOND, now, || false), None);
        assert_eq!(shard.claim(&key, &value, SECOND, now, || true), claimed);
        assert_eq!(
            shard.claim(&key, &other, SECOND, now + SECOND, || false),
            claimed
        );
        assert_eq!((shard.records.len(), noted(&shard)), (1, 1));
    }

    #[test]
    fn a_record_with_a_ttl_beyond_the_clock_is_live() {
        let mut shard = Shard::default();
        let key = Key::new("k");
        let (now, value) = (Instant::now(), Bytes::from("v"));
        shard.claim(&key, &value, Duration::MAX, now, || true);
        let century = Duration::from_hours(100 * 365 * 24);
        assert!(shard.get(&key, now + century).is_some());
    }
}
