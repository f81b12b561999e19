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

/// The division of a retention into buckets, one fewer than `SLOTS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeBuckets<const SLOTS: usize> {
    /// The width of one bucket, in milliseconds.
    width: u64,
}

impl<const SLOTS: usize> TimeBuckets<SLOTS> {
    /// Divides `retention` into buckets. Each is a millisecond wider than necessary, the millisecond in which it has expired and
    /// its slot is not used yet.
    ///
    /// More buckets let members be forgotten sooner after the retention, but each bucket costs a look-up.
    pub(crate) fn new(retention: Duration) -> Self {
        // A slot is one digit at the end of its key.
        const { assert!(1 < SLOTS && SLOTS <= DIGITS.len()) };
        Self {
            width: millis(retention).div_ceil(SLOTS as u64 - 1) + 1,
        }
    }

    /// The keys of all slots in their order. A script must get all of them as its keys. The part of `name` in braces keeps them
    /// on one node of a cluster.
    pub(crate) fn keys(name: &str) -> BucketKeys<SLOTS> {
        BucketKeys::new(name, |at| at)
    }

    /// The keys of all slots from the current slot backwards, by the clock of this machine.
    pub(crate) fn newest_keys(self, name: &str) -> BucketKeys<SLOTS> {
        let now = time_of_day().duration_since(UNIX_EPOCH);
        self.keys_at(now.unwrap_or_default(), name)
    }

    fn keys_at(self, since_1970: Duration, name: &str) -> BucketKeys<SLOTS> {
        let turn = since_1970.as_millis() / u128::from(self.width);
        let current = (turn % SLOTS as u128) as usize;
        BucketKeys::new(name, |at| (current + SLOTS - at) % SLOTS)
    }

    /// The first argument of a script that begins with [`current_bucket!`] or ends with [`put!`].
    pub(crate) fn width(self) -> String {
        self.width.to_string()
    }
}

/// The names of the slots.
const DIGITS: [char; 10] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

/// The keys of all slots, in one text.
pub(crate) struct BucketKeys<const SLOTS: usize> {
    text: String,
    /// The bytes of one key.
    length: usize,
}

impl<const SLOTS: usize> BucketKeys<SLOTS> {
    /// `slot` returns the slot of each place.
    fn new(name: &str, slot: impl Fn(usize) -> usize) -> Self {
        let length = name.len() + 2;
        let mut text = String::with_capacity(length * SLOTS);
        for at in 0..SLOTS {
            text.push_str(name);
            text.push(':');
            text.push(DIGITS[slot(at)]);
        }
        Self { text, length }
    }

    pub(crate) fn all(&self) -> [&str; SLOTS] {
        array::from_fn(|at| &self.text[at * self.length..][..self.length])
    }
}

/// Asks for the server's time: `turn` is the number of the current bucket since 1970.
macro_rules! clock {
    () => {
        "  local time = redis.call('TIME')
  local turn = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / width)
"
    };
}

/// The beginning of an operation of a script [of each](crate::script::each) that writes into the current bucket. The keys of the
/// operation are the [newest keys](TimeBuckets::newest_keys) of a [`TimeBuckets`] with so many `$slots`, and its first argument is the width.
///
/// The rest of the operation may read all keys from `KEYS[k]` to `KEYS[last]`: each is a bucket or is absent. It writes with
/// [`put!`] into the current bucket, `bucket`. If `ends`, it must read that bucket first, so that a key of another type is refused
/// before anything changes. `ends` is the expiry that the bucket must get, or nil if its expiry is right.
///
/// `TIME` before a write needs `redis.replicate_commands` (Redis 3.2); from 5.0 on the call has no effect.
macro_rules! current_bucket {
    ($slots:literal) => {
        concat!(
            "if redis.replicate_commands then redis.replicate_commands() end
local slots, call, bucket, width, ends = ",
            $slots,
            ", redis.call, KEYS[k], tonumber(ARGV[a])
local last, retention = k + slots - 1, (slots - 1) * width - 1
local remaining = call('PTTL', bucket)
if remaining < retention or remaining > retention + width then
",
            clock!(),
            "  bucket = KEYS[(string.sub(bucket, -1) - turn) % slots + k]
  remaining = call('PTTL', bucket)
  if remaining < retention or remaining > retention + width then
    ends = string.format('%.0f', (turn + slots) * width - 1)
  end
end
"
        )
    };
}

/// Writes into the bucket of [`current_bucket!`]. `$first` makes the bucket if it is absent, and `$write` follows in either case.
///
/// A bucket without an expiry cannot remain. If the first write is refused, there is no bucket. If `PEXPIREAT` is then refused,
/// which only a missing permission can cause, the script deletes the bucket and repeats `PEXPIREAT` for its error. It does not
/// try `PEXPIREAT` before the write, because the server checks for free memory only at a script's first write. All writes of a
/// script go to the append-only file and to the replicas as one transaction, so a killed server has all or none of these
/// writes.
macro_rules! put {
    ($first:literal, $write:literal) => {
        concat!(
            "if ends and remaining ~= -2 then
  call('PEXPIREAT', bucket, ends)
elseif ends then
  ",
            $first,
            "
  if redis.pcall('PEXPIREAT', bucket, ends) ~= 1 then
    redis.pcall('DEL', bucket)
    call('PEXPIREAT', bucket, ends)
  end
end
",
            $write
        )
    };
}

/// A script that returns the age of the current bucket in widths, and the answer to a `$command` for each bucket, newest first. Its
/// argument is the width.
macro_rules! counts {
    ($command:literal) => {
        Script::new(concat!(
            "local width = ARGV[1]
",
            clock!(),
            "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('",
            $command,
            "', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
        ))
    };
}

pub(crate) use {clock, counts, current_bucket, put};

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
            assert_eq!(
                TimeBuckets::<3>::new(retention).width(),
                half,
                "{retention:?}"
            );
        }
    }

    #[test]
    fn there_is_a_slot_for_the_current_bucket() {
        let keys = TimeBuckets::<3>::keys("idem:#bloom:{orders.no}");
        let slots = ["0", "1", "2"].map(|at| format!("idem:#bloom:{{orders.no}}:{at}"));
        assert_eq!(keys.all(), slots);
    }

    #[test]
    fn the_newest_keys_begin_with_the_current_slot() {
        // A bucket is 1001 ms wide.
        let ring = TimeBuckets::<3>::new(Duration::from_secs(2));
        for (turn, slots) in [
            (0, ["a:0", "a:2", "a:1"]),
            (1, ["a:1", "a:0", "a:2"]),
            (5, ["a:2", "a:1", "a:0"]),
            (1_795_398_000, ["a:0", "a:2", "a:1"]),
        ] {
            for millis in [0, 1000] {
                let now = Duration::from_millis(turn * 1001 + millis);
                assert_eq!(ring.keys_at(now, "a").all(), slots, "{now:?}");
            }
        }
    }
}
