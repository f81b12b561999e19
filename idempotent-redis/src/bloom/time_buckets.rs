//! A ring of time buckets. A member of the current bucket is remembered for at least a retention and expires with its bucket.
//!
//! Redis before 7.4 expires keys, not members. So a retention is divided into buckets. Each bucket is one key, which expires
//! when its last member may be forgotten. A member is remembered for at least the retention, and at most one width of a bucket
//! longer.
//!
//! The keys are slots that the buckets use in turn: `filter:0`, `filter:1`, … The server's clock selects the slot. There is one
//! more slot than buckets per retention: the current bucket. A bucket expires a millisecond before its slot is used again.
//!
//! **Every existing bucket counts**, in any slot: only its expiry decides for how long. So a member is never forgotten early
//! and never found late, even if the clock is set back, or a replica with a slower clock takes over. Then some buckets seem to
//! be from the future, and they are read like other buckets. The first write into such a bucket sets the expiry for the new
//! time. Otherwise the bucket would not expire before the clock reaches the old time. If the clock is set forward, buckets
//! expire early.
//!
//! The client guesses the slot of the current bucket by its own clock, and sends the keys from this slot backwards. The expiry
//! of the bucket shows whether the guess is right: only the current bucket has more than a retention left. Then the script does
//! not ask for the time. After a wrong guess, and for the first write into a bucket, it does. So a client with a wrong clock
//! costs the server more, and changes nothing else.

use std::array;
use std::time::{Duration, UNIX_EPOCH};

use idempotent_runtime::port::redis::time_of_day;

use crate::script::millis;

/// The slots of a ring: two buckets for each retention, and the current bucket. Every insertion reads all of them.
const SLOTS: usize = 3;

/// The division of a retention into buckets, one fewer than [`SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeBuckets {
    /// The width of one bucket, in milliseconds.
    width: u64,
}

impl TimeBuckets {
    /// Divides `retention` into buckets. Each is a millisecond wider than necessary, the millisecond in which it has expired and
    /// its slot is not used yet.
    ///
    /// More buckets let members be forgotten sooner after the retention, but each bucket costs a look-up.
    pub(super) fn new(retention: Duration) -> Self {
        Self {
            width: millis(retention).div_ceil(SLOTS as u64 - 1) + 1,
        }
    }

    /// The keys of all slots in their order. A script must get all of them as its keys. The part of `name` in braces keeps them
    /// on one node of a cluster.
    pub(super) fn keys(name: &str) -> [String; SLOTS] {
        array::from_fn(|slot| format!("{name}:{slot}"))
    }

    /// The keys of all slots from the current slot backwards, by the clock of this machine.
    pub(super) fn newest_keys(self, name: &str) -> [String; SLOTS] {
        let now = time_of_day().duration_since(UNIX_EPOCH);
        self.keys_at(now.unwrap_or_default(), name)
    }

    fn keys_at(self, since_1970: Duration, name: &str) -> [String; SLOTS] {
        let turn = since_1970.as_millis() / u128::from(self.width);
        let current = (turn % SLOTS as u128) as usize;
        array::from_fn(|at| format!("{name}:{}", (current + SLOTS - at) % SLOTS))
    }

    /// The first argument of the scripts.
    pub(super) fn width(self) -> String {
        self.width.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_retention_are_a_millisecond_longer_than_it() {
        for (retention, half) in [
            (Duration::from_hours(24), "43200001"),
            (Duration::from_millis(400), "201"),
            (Duration::from_millis(401), "202"),
            (Duration::from_micros(2001), "3"),
            (Duration::from_millis(1), "2"),
            (Duration::ZERO, "2"),
            // The numbers of a script are exact up to 2^53.
            (Duration::MAX, "15768000000001"),
        ] {
            assert_eq!(TimeBuckets::new(retention).width(), half, "{retention:?}");
        }
    }

    #[test]
    fn there_is_a_slot_for_the_current_bucket() {
        let keys = TimeBuckets::keys("idem:#bloom:{orders.no}");
        let slots = ["0", "1", "2"].map(|at| format!("idem:#bloom:{{orders.no}}:{at}"));
        assert_eq!(keys, slots);
    }

    #[test]
    fn the_newest_keys_begin_with_the_current_slot() {
        // A bucket is 1001 ms wide.
        let ring = TimeBuckets::new(Duration::from_secs(2));
        for (turn, slots) in [
            (0, ["a:0", "a:2", "a:1"]),
            (1, ["a:1", "a:0", "a:2"]),
            (5, ["a:2", "a:1", "a:0"]),
            (1_795_398_000, ["a:0", "a:2", "a:1"]),
        ] {
            for millis in [0, 1000] {
                let now = Duration::from_millis(turn * 1001 + millis);
                assert_eq!(ring.keys_at(now, "a"), slots, "{now:?}");
            }
        }
    }
}
