//! When a key is late: one rule for `ls`, `show` and `release`.
//!
//! A holder renews its key after each third of its lease, with `release = false` first after two thirds. So a key that was not renewed for
//! three quarters of its time is late: the holder was killed, or its calls have `renew = false`, or its call has ended with
//! `release = false`.

use std::time::{Duration, SystemTime};

use idempotence::{ListedCall, Peek};

/// The times of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyTimes {
    /// The time since the record was written. `None` if the clock of its holder is ahead of the clock of this machine.
    age: Option<Duration>,
    /// The time that a claim or a renewal gives the key: the lease and its grace.
    lasts: Duration,
    /// The time until the key is free.
    remaining: Duration,
}

impl KeyTimes {
    pub(crate) fn of(peek: &Peek) -> Self {
        Self::new(peek.since(), peek.lasts(), peek.remaining())
    }

    /// `None` if another program or another version wrote the record.
    pub(crate) fn of_listed(call: &ListedCall) -> Option<Self> {
        let times = Self::new(call.since()?, call.lasts()?, call.remaining());
        Some(times)
    }

    fn new(since: SystemTime, lasts: Duration, remaining: Option<Duration>) -> Self {
        Self {
            age: since.elapsed().ok(),
            lasts,
            remaining: remaining.unwrap_or(lasts),
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.until_late().is_zero()
    }

    /// The time until the key is late, if nobody renews it. Before that, nobody can tell a holder that was killed from one that lives. A
    /// key whose call has ended is never late: it becomes free.
    pub(crate) fn until_late(&self) -> Duration {
        if self.has_ended() {
            return self.remaining;
        }
        let silent = self.lasts.saturating_sub(self.remaining);
        (self.lasts / 4 * 3).saturating_sub(silent)
    }

    /// Whether the call has ended, and `at_least` keeps its key: so long after the claim, which is shorter than the time of a claim. The
    /// key of any other call lives for that time, or longer. The age compares the clocks of two machines, so a difference that these
    /// clocks may make says nothing: a key whose `at_least` is nearly its lease is late as any other.
    pub(crate) fn has_ended(&self) -> bool {
        let clocks = (self.lasts / 8).min(Duration::from_mins(1));
        self.age
            .is_some_and(|age| age + self.remaining + clocks < self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of this age whose holder has not renewed it for `silent`.
    fn times(lasts: u64, silent: u64, age: Option<u64>) -> KeyTimes {
        let [lasts, silent] = [lasts, silent].map(Duration::from_millis);
        KeyTimes {
            age: age.map(Duration::from_millis),
            lasts,
            remaining: lasts.saturating_sub(silent),
        }
    }

    #[test]
    fn a_key_is_late_after_three_quarters_of_its_time() {
        // Leases of 30 s, 5 min and 600 ms.
        for (lasts, late) in [(33_000, 24_750), (305_000, 228_750), (860, 645)] {
            for (silent, is_late) in [(0, false), (late - 1, false), (late, true)] {
                for age in [None, Some(silent), Some(silent + 60_000)] {
                    let times = times(lasts, silent, age);
                    assert_eq!(times.is_late(), is_late, "{times:?}");
                }
            }
        }
    }

    #[test]
    fn a_killed_call_is_late_by_a_clock_that_is_behind() {
        // Leases of 1 min and 5 min. The clock of the operator is 5 s behind.
        for lasts in [65_000, 305_000] {
            for silent in [lasts / 4 * 3, lasts - 1] {
                let times = times(lasts, silent, Some(silent - 5_000));
                assert!(times.is_late(), "{times:?}");
            }
        }
    }

    #[test]
    fn a_key_that_its_ended_call_keeps_is_not_late() {
        // The lease is 10 min, and `at_least` is 1 min, or 9 min.
        for at_least in [60_000, 540_000] {
            for age in [0, 1_000, 59_000] {
                let times = times(605_000, 605_000 + age - at_least, Some(age));
                assert!(!times.is_late(), "{times:?}");
                assert_eq!(times.until_late(), times.remaining);
            }
        }
    }
}
