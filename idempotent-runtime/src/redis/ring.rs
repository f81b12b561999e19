//! A ring of time buckets: what is put into the current bucket is remembered at least for a retention, and goes with the
//! whole bucket.
//!
//! Redis (before 7.4) expires keys, not what is in them. So the retention is cut into buckets, each a key that expires as a
//! whole once its last member may be forgotten: a member is remembered at least for the retention, and at most for one
//! bucket's width longer.
//!
//! The keys are slots that the buckets take in turn: `set:0`, `set:1`, … The server's clock says whose turn it is. There are
//! two more slots than buckets in a retention: one for the bucket that is being filled, and one that is empty, so that a
//! bucket is gone for the time of one width before its slot is used again.
//!
//! **A bucket that is there counts**, in whatever slot it is: its expiry alone decides how long. So a member is never
//! forgotten early, and one of an earlier turn is never found late, also when the clock is stepped back, or a replica whose
//! clock is behind takes over: then some buckets seem to come from the future, and they are read like the others. The
//! first write into one gives it the expiry that it ought to have by the new time; without that, it would be written to,
//! and would not go, for as long as the clock was stepped back. What a clock loses that is stepped forward is lost.

use std::time::Duration;

use super::script::millis;

/// How a retention is cut into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    slots: u64,
    /// Of one bucket, in milliseconds.
    width: u64,
}

impl Ring {
    /// Cuts `retention` into so many `buckets`, each at least a millisecond wide.
    ///
    /// More buckets forget sooner what may be forgotten, and cost a look-up each.
    pub(super) fn new(buckets: u64, retention: Duration) -> Self {
        Self {
            slots: buckets + 2,
            width: millis(retention).div_ceil(buckets),
        }
    }

    /// The keys of all slots, to be all the keys of a script. The part of `name` in braces keeps them on one node of a cluster.
    pub(super) fn keys(self, name: &str) -> Vec<String> {
        (0..self.slots).map(|at| format!("{name}:{at}")).collect()
    }

    /// The first argument of a script that begins with [`turn!`].
    pub(super) fn width(self) -> String {
        self.width.to_string()
    }
}

/// The beginning of a script whose keys are those of a [`Ring`], and whose first argument is its width.
///
/// What follows may read all `KEYS`: each is a bucket whose members count, or is absent. It writes into the current one by
/// `put(write)`, where `write(bucket)` puts something under that key; `put` sees to the expiry. It must have read the
/// current bucket before, so that a key of another program's type is refused while nothing is changed.
///
/// A bucket without an expiry cannot stay: if the first write is refused, there is no bucket; after it only a user who may not
/// `PEXPIREAT` is refused, and then the bucket goes, and the second try says so in the server's words. It is not tried before
/// the write, because a script that was let write once is not asked any more whether there is room. All that a script writes
/// goes to the append-only file and to the replicas as one transaction, so that a server which is killed has both or neither.
///
/// `TIME` before a write needs `redis.replicate_commands`, which is there from Redis 3.2 on; from 5.0 on it changes nothing.
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
  local left = redis.call('PTTL', bucket)
  if left ~= -2 then
    if left < retention or left > retention + width then
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
