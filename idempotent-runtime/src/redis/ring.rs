//! A ring of time buckets. A member of the current bucket is remembered for at least a retention and expires with its bucket.
//!
//! Redis before 7.4 expires keys, not members. So a retention is divided into buckets. Each bucket is one key, which expires
//! when its last member may be forgotten. A member is remembered for at least the retention, and at most one width of a bucket
//! longer.
//!
//! The keys are slots that the buckets use in turn: `set:0`, `set:1`, … The server's clock selects the slot. There are two more
//! slots than buckets per retention: one for the current bucket, and one that is empty, so that a bucket expires one width before
//! its slot is used again.
//!
//! **Every existing bucket counts**, in any slot: only its expiry decides for how long. So a member is never forgotten early
//! and never found late, even if the clock is set back, or a replica with a slower clock takes over. Then some buckets seem to
//! be from the future, and they are read like other buckets. The first write into such a bucket sets the expiry for the new
//! time. Otherwise the bucket would not expire before the clock reaches the old time. If the clock is set forward, buckets
//! expire early.

use std::time::Duration;

use super::script::millis;

/// The division of a retention into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    slots: u64,
    /// The width of one bucket, in milliseconds.
    width: u64,
}

impl Ring {
    /// Divides `retention` into `buckets`, each at least a millisecond wide.
    ///
    /// More buckets let members be forgotten sooner after the retention, but each bucket costs a look-up.
    pub(super) fn new(buckets: u64, retention: Duration) -> Self {
        Self {
            slots: buckets + 2,
            width: millis(retention).div_ceil(buckets),
        }
    }

    /// The keys of all slots. A script must get all of them as its keys. The part of `name` in braces keeps them on one node of
    /// a cluster.
    pub(super) fn keys(self, name: &str) -> Vec<String> {
        (0..self.slots).map(|at| format!("{name}:{at}")).collect()
    }

    /// The first argument of a script that begins with [`turn!`].
    pub(super) fn width(self) -> String {
        self.width.to_string()
    }
}

/// The beginning of a script whose keys are the slots of a [`Ring`] and whose first argument is its width.
///
/// The rest of the script may read all `KEYS`: each is a bucket or is absent. It writes into the current bucket with
/// `put(write)`, where `write(bucket)` writes to that key and `put` sets the expiry. It must read the current bucket first, so
/// that a key of another type is refused before anything changes.
///
/// A bucket without an expiry cannot remain. If the first write is refused, there is no bucket. If `PEXPIREAT` is then refused,
/// which only a missing permission can cause, the script deletes the bucket and repeats `PEXPIREAT` for its error. It does not
/// try `PEXPIREAT` before the write, because the server checks for free memory only at a script's first write. All writes of a
/// script go to the append-only file and to the replicas as one transaction, so a killed server has all or none of these
/// writes.
///
/// `TIME` before a write needs `redis.replicate_commands` (Redis 3.2); from 5.0 on the call has no effect.
macro_rules! turn {
    () => {
        "if redis.replicate_commands then redis.replicate_commands() end
local width = tonumber(ARGV[1])
local retention = (#KEYS - 2) * width
local time = redis.call('TIME')
local turn = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / width)
local bucket = KEYS[turn % #KEYS + 1]
local ends = string.format('%.0f', (turn + #KEYS - 1) * width)
local function put(write)
  local remaining = redis.call('PTTL', bucket)
  if remaining ~= -2 then
    if remaining < retention or remaining > retention + width then
      redis.call('PEXPIREAT', bucket, ends)
    end
    write(bucket)
    return
  end
  write(bucket)
  if redis.pcall('PEXPIREAT', bucket, ends) ~= 1 then
    redis.pcall('DEL', bucket)
    redis.call('PEXPIREAT', bucket, ends)
  end
end
"
    };
}

pub(super) use turn;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_retention_are_not_shorter_than_it() {
        for (buckets, retention, width) in [
            (4, Duration::from_hours(24), "21600000"),
            (4, Duration::from_millis(400), "100"),
            (4, Duration::from_millis(401), "101"),
            (2, Duration::from_micros(2001), "2"),
            (4, Duration::from_millis(1), "1"),
            (4, Duration::ZERO, "1"),
            // The numbers of a script are exact up to 2^53.
            (2, Duration::MAX, "15768000000000"),
        ] {
            assert_eq!(
                Ring::new(buckets, retention).width(),
                width,
                "{retention:?}"
            );
        }
    }

    #[test]
    fn there_is_a_slot_for_the_current_bucket_and_an_empty_one() {
        let keys = Ring::new(2, Duration::from_secs(1)).keys("idem:#seen:{orders.no}");
        let slots = ["0", "1", "2", "3"].map(|at| format!("idem:#seen:{{orders.no}}:{at}"));
        assert_eq!(keys, slots);
    }
}
