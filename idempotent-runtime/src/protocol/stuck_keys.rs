//! The keys that duplicates of this process have met although their holder seems to be dead, for at most [`MOST_KEYS`] keys.

use std::borrow::Cow;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::Site;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

/// The keys of one handle whose holder may be dead.
#[derive(Debug, Default)]
pub(crate) struct StuckKeys {
    /// The number of keys. Most calls only read that there is none.
    count: AtomicUsize,
    keys: Mutex<Vec<StuckKey>>,
}

#[derive(Debug)]
struct StuckKey {
    site: Site,
    /// The record of the holder.
    record: Bytes,
    /// When another duplicate may ask the store again.
    ask_again: Instant,
    /// When the key becomes free, if the holder was found not to renew.
    free_at: Option<Instant>,
}

impl StuckKeys {
    /// Whether a duplicate that has met this `record` asks the store when it expires: once in a while, and not again after the
    /// answer was reported.
    pub(crate) fn may_ask(&self, site: &Site, record: &Bytes, now: Instant) -> bool {
        let mut keys = self.keys();
        keys.retain(|key| now < key.forget_at());
        let (ask_again, has_room) = (now + BETWEEN_QUESTIONS, keys.len() < MOST_KEYS);
        let may_ask = match keys.iter_mut().find(|key| is_equal(&key.site, site)) {
            Some(known) => {
                let is_over = known.free_at.is_some_and(|free_at| now > free_at);
                // After the key should be free, the same record means that the holder lives.
                let may_ask = known.record != *record
                    || is_over
                    || known.free_at.is_none() && now >= known.ask_again;
                if may_ask {
                    known.record = record.clone();
                    (known.ask_again, known.free_at) = (ask_again, None);
                }
                may_ask
            }
            None if has_room => {
                keys.push(StuckKey {
                    site: site.clone(),
                    record: record.clone(),
                    ask_again,
                    free_at: None,
                });
                true
            }
            None => false,
        };
        self.count.store(keys.len(), Ordering::Relaxed);
        may_ask
    }

    /// Notes that the holder does not renew, so that the key becomes free at this instant. Returns whether that is new.
    pub(crate) fn note(&self, site: &Site, record: &Bytes, free_at: Instant) -> bool {
        let mut keys = self.keys();
        let mut keys = keys.iter_mut();
        let known = keys.find(|key| is_equal(&key.site, site) && key.record == *record);
        known.is_some_and(|known| known.free_at.replace(free_at).is_none())
    }

    /// When the key of this record becomes free, if its holder was found not to renew.
    pub(crate) fn free_at(&self, site: &Site, record: &Bytes) -> Option<Instant> {
        let keys = self.keys();
        let mut keys = keys.iter();
        let known = keys.find(|key| is_equal(&key.site, site) && key.record == *record);
        known.and_then(|known| known.free_at)
    }

    /// Forgets the key of a call that has claimed it. Returns whether it became free because its holder did not renew.
    #[inline]
    pub(crate) fn take_over<'a>(&self, site: impl FnOnce() -> Cow<'a, Site>) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.take_known(&site())
    }

    fn take_known(&self, site: &Site) -> bool {
        // An operator or the holder may have freed the key earlier.
        let free_at = self.forget(site);
        free_at.is_some_and(|free_at| Instant::now() >= free_at)
    }

    /// Forgets the key, so that the next duplicate asks the store. Returns when the key becomes free, if its holder was found not to renew.
    pub(crate) fn forget(&self, site: &Site) -> Option<Instant> {
        let mut keys = self.keys();
        let at = keys.iter().position(|key| is_equal(&key.site, site))?;
        let known = keys.swap_remove(at);
        self.count.store(keys.len(), Ordering::Relaxed);
        known.free_at
    }

    fn keys(&self) -> MutexGuard<'_, Vec<StuckKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StuckKey {
    fn forget_at(&self) -> Instant {
        match self.free_at {
            Some(free_at) => free_at + REMEMBERED,
            None => self.ask_again,
        }
    }
}

fn is_equal(one: &Site, other: &Site) -> bool {
    one.fingerprint == other.fingerprint && one.endpoint == other.endpoint
}

/// The largest number of keys: a process that dies may leave many.
const MOST_KEYS: usize = 256;

/// How often the store is asked about one key.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(5);

/// How long after its key is free a dead holder is remembered, for the call that takes over.
const REMEMBERED: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::endpoint::Endpoint;

    const SECOND: Duration = Duration::from_secs(1);

    fn example() -> Site {
        Site::without_key(Endpoint::named("orders.pay"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_asked_about_every_five_seconds_until_it_is_reported_once() {
        let (keys, site) = (StuckKeys::default(), example());
        let (record, later) = (Bytes::from("one"), Bytes::from("two"));
        let (start, end) = (Instant::now(), Instant::now() + 30 * SECOND);
        assert!(keys.may_ask(&site, &record, start));
        assert!(!keys.may_ask(&site, &record, start + 4 * SECOND));
        assert!(keys.may_ask(&site, &later, start + 4 * SECOND));
        assert!(!keys.note(&site, &record, end), "another call has the key");
        assert!(keys.note(&site, &later, end));
        assert!(!keys.note(&site, &later, end));
        assert!(!keys.may_ask(&site, &later, end));
        assert!(
            keys.may_ask(&site, &later, end + SECOND),
            "the holder lives"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_key_that_became_free_by_itself_is_taken_over() {
        let (keys, site, record) = (StuckKeys::default(), example(), Bytes::from("one"));
        for (waits, is_over) in [(29, false), (30, true)] {
            assert!(!keys.take_over(|| Cow::Borrowed(&site)));
            assert!(keys.may_ask(&site, &record, Instant::now()));
            assert!(keys.note(&site, &record, Instant::now() + 30 * SECOND));
            tokio::time::advance(waits * SECOND).await;
            assert_eq!(keys.take_over(|| Cow::Borrowed(&site)), is_over);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_keys_takes_bounded_memory_and_is_forgotten() {
        let (keys, record) = (StuckKeys::default(), Bytes::from("one"));
        let site = |number: usize| {
            Site::without_key(Endpoint::try_new(format!("data.{number}")).expect("a name"))
        };
        let asked =
            (0..1000).filter(|number| keys.may_ask(&site(*number), &record, Instant::now()));
        assert_eq!(asked.count(), MOST_KEYS);
        tokio::time::advance(BETWEEN_QUESTIONS).await;
        assert!(keys.may_ask(&site(1000), &record, Instant::now()));
        assert_eq!(keys.keys().len(), 1);
    }
}
