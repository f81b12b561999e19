//! The records that share a lock.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::time::Instant;

use crate::store::answer::{Claim, Entry, Swap};

pub(super) struct Shard {
    records: HashMap<Arc<str>, Record, RandomState>,
    /// The keys in the order in which their records expire.
    expiries: BTreeMap<Expiry, Arc<str>>,
    /// The latest record, which joins `expiries` only when the next record is stored. Most often it is removed before that, and
    /// then the order costs nothing.
    latest: Option<(Expiry, Arc<str>)>,
    /// The number of the latest record. Numbers distinguish records that expire at one instant.
    last: u64,
}

type Expiry = (Instant, u64);

struct Record {
    value: Bytes,
    expires: Instant,
    number: u64,
}

impl Record {
    fn is_live(&self, now: Instant) -> bool {
        now < self.expires
    }

    fn expiry(&self) -> Expiry {
        (self.expires, self.number)
    }
}

impl Shard {
    pub(super) fn new(seed: RandomState) -> Self {
        Self {
            records: HashMap::with_hasher(seed),
            expiries: BTreeMap::new(),
            latest: None,
            last: 0,
        }
    }

    /// Claims the key; `None` if the key is free but there is no `room` for the record.
    pub(super) fn claim(
        &mut self,
        key: &str,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
        room: impl FnOnce() -> bool,
    ) -> Option<Claim> {
        self.last += 1;
        let record = Record {
            value: value.clone(),
            expires: after(now, ttl),
            number: self.last,
        };
        // The key is copied before the look-up. So a first call needs one look-up, and a duplicate pays for a copy.
        let key: Arc<str> = Arc::from(key);
        let expiry = record.expiry();
        let expired = match self.records.entry(Arc::clone(&key)) {
            Slot::Vacant(slot) => {
                if !room() {
                    return None;
                }
                slot.insert(record);
                None
            }
            Slot::Occupied(slot) if slot.get().is_live(now) => {
                let stored = &slot.get().value;
                return Some(if stored == value {
                    Claim::Claimed
                } else {
                    Claim::Taken(stored.clone())
                });
            }
            Slot::Occupied(mut slot) => Some(slot.insert(record).expiry()),
        };
        if let Some(expired) = expired {
            self.forget(expired);
        }
        self.remember(expiry, key);
        Some(Claim::Claimed)
    }

    pub(super) fn replace(
        &mut self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Swap {
        let Some(record) = self
            .records
            .get_mut(key)
            .filter(|record| record.is_live(now))
        else {
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
        if let Some(key) = self.forget(before) {
            self.remember(expiry, key);
        }
        Swap::Done
    }

    /// Replaces the value and keeps the exact instant of expiry.
    pub(super) fn exchange(
        &mut self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        now: Instant,
    ) -> Swap {
        let Some(record) = self
            .records
            .get_mut(key)
            .filter(|record| record.is_live(now))
        else {
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
    pub(super) fn remove(&mut self, key: &str, expected: &Bytes, now: Instant) -> (Swap, usize) {
        // Removes first and puts another value back: one look-up in the usual case.
        let Some((key, record)) = self.records.remove_entry(key) else {
            return (Swap::Absent, 0);
        };
        let is_live = record.is_live(now);
        if is_live && record.value != expected {
            let other = Swap::Other(record.value.clone());
            self.records.insert(key, record);
            return (other, 0);
        }
        self.forget(record.expiry());
        (if is_live { Swap::Done } else { Swap::Absent }, 1)
    }

    pub(super) fn get(&self, key: &str, now: Instant) -> Option<Entry> {
        let record = self.records.get(key).filter(|record| record.is_live(now))?;
        Some(Entry {
            value: record.value.clone(),
            ttl: Some(record.expires - now),
        })
    }

    /// Adds the expiry of the record under `key`.
    fn remember(&mut self, expiry: Expiry, key: Arc<str>) {
        if let Some((expiry, key)) = self.latest.replace((expiry, key)) {
            self.expiries.insert(expiry, key);
        }
    }

    fn forget(&mut self, expiry: Expiry) -> Option<Arc<str>> {
        match self.latest.take_if(|(latest, _)| *latest == expiry) {
            Some((_, key)) => Some(key),
            None => self.expiries.remove(&expiry),
        }
    }

    /// Removes up to `at_most` expired records.
    pub(super) fn sweep(&mut self, now: Instant, at_most: usize) -> usize {
        let mut swept = 0;
        while swept < at_most
            && let Some(key) = self.first_expired(now)
        {
            self.records.remove(&key);
            swept += 1;
        }
        swept
    }

    fn first_expired(&mut self, now: Instant) -> Option<Arc<str>> {
        let expired = |expiry: &Expiry| expiry.0 <= now;
        if let Some((_, key)) = self.latest.take_if(|(expiry, _)| expired(expiry)) {
            return Some(key);
        }
        let first = self.expiries.first_entry()?;
        expired(first.key()).then(|| first.remove())
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

    fn shard() -> Shard {
        Shard::new(RandomState::default())
    }

    fn noted(shard: &Shard) -> usize {
        shard.expiries.len() + usize::from(shard.latest.is_some())
    }

    #[test]
    fn removed_and_replaced_records_leave_no_expiry_behind() {
        let mut shard = shard();
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        for round in 0..1000 {
            for key in ["a", "b", "c"] {
                shard.claim(key, &value, SECOND, now, || true);
                shard.replace(key, &value, &value, SECOND * 2, now);
                shard.replace(key, &value, &other, SECOND * round, now);
                assert_eq!(shard.remove(key, &value, now).1, 0);
            }
            assert_eq!((shard.records.len(), noted(&shard)), (3, 3));
            for key in ["b", "a", "c"] {
                assert_eq!(shard.remove(key, &other, now), (Swap::Done, 1));
            }
            assert_eq!((shard.records.len(), noted(&shard)), (0, 0));
        }
    }

    #[test]
    fn an_exchange_keeps_the_very_instant_of_expiry() {
        let mut shard = shard();
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        shard.claim("key", &value, SECOND, now, || true);
        let tick = Duration::from_nanos(1);
        let late = now + SECOND - tick;
        for (at, expected, put) in [(now, &value, &other), (late, &other, &value)] {
            assert_eq!(shard.exchange("key", expected, put, at), Swap::Done);
            let entry = shard.get("key", at).unwrap();
            assert_eq!((&entry.value, entry.ttl), (put, Some(now + SECOND - at)));
        }
        let over = late + tick;
        assert_eq!(shard.exchange("key", &value, &other, over), Swap::Absent);
        assert_eq!(shard.get("key", over), None);
        assert_eq!(noted(&shard), 1);
    }

    #[test]
    fn expired_records_are_swept_in_the_order_of_expiry_and_a_few_at_a_time() {
        let mut shard = shard();
        let (now, value) = (Instant::now(), Bytes::from("v"));
        for second in [3, 1, 5, 2, 4] {
            let key = second.to_string();
            shard.claim(&key, &value, SECOND * second, now, || true);
        }
        assert_eq!(shard.live(now), 5);
        let later = now + SECOND * 4;
        assert_eq!(shard.live(later), 1);
        assert_eq!(shard.sweep(later, 2), 2);
        assert_eq!((shard.records.len(), noted(&shard)), (3, 3));
        assert_eq!(shard.sweep(later, 9), 2);
        assert!(shard.records.contains_key("5"));
        assert_eq!((shard.live(later), noted(&shard)), (1, 1));
    }

    #[test]
    fn an_expired_record_is_claimed_without_more_room() {
        let mut shard = shard();
        let (now, value, other) = (Instant::now(), Bytes::from("v"), Bytes::from("w"));
        let claimed = Some(Claim::Claimed);
        assert_eq!(shard.claim("k", &value, SECOND, now, || false), None);
        assert_eq!(shard.claim("k", &value, SECOND, now, || true), claimed);
        assert_eq!(
            shard.claim("k", &other, SECOND, now + SECOND, || false),
            claimed
        );
        assert_eq!((shard.records.len(), noted(&shard)), (1, 1));
    }

    #[test]
    fn a_record_with_a_ttl_beyond_the_clock_is_live() {
        let mut shard = shard();
        let (now, value) = (Instant::now(), Bytes::from("v"));
        shard.claim("k", &value, Duration::MAX, now, || true);
        let century = Duration::from_hours(100 * 365 * 24);
        assert!(shard.get("k", now + century).is_some());
    }
}
