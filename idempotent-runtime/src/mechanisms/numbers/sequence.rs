//! The numbers of one machine id: they grow, are unique, and have times before the end of the lease.

use std::time::{Duration, SystemTime};

use ferroid::id::{SnowflakeId as _, SnowflakeTwitterId as Layout};
use tokio::time::Instant;

use crate::world;

/// The time in a number counts from here: the first of January 2025. The bits are enough until 2094.
pub(super) const EPOCH: Duration = Duration::from_hours(482_136);

/// How many machine ids there are.
pub(super) const MACHINES: u64 = Layout::max_machine_id() + 1;

/// The time in a number, in milliseconds since [`EPOCH`].
pub(super) fn millis_of(number: u64) -> u64 {
    Layout::from_raw(number).timestamp()
}

/// The time of day at one moment, and the monotonic clock since then. So a change of the wall clock has no effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    millis: u64,
    at: Instant,
}

impl Clock {
    /// `None` if the time of day is before [`EPOCH`].
    pub(super) fn new(time_of_day: SystemTime) -> Option<Self> {
        let since = time_of_day.duration_since(SystemTime::UNIX_EPOCH + EPOCH);
        Some(Self {
            millis: since.ok()?.as_millis().try_into().ok()?,
            at: Instant::now(),
        })
    }

    /// Milliseconds since [`EPOCH`].
    pub(super) fn millis(&self, instant: Instant) -> u64 {
        let since = instant.duration_since(self.at).as_millis();
        self.millis
            .saturating_add(since.try_into().unwrap_or(u64::MAX))
    }
}

/// The numbers of one machine id.
#[derive(Debug)]
pub(super) struct Sequence {
    clock: Clock,
    last: Layout,
    /// The end of the lease: the time of every number is before it.
    limit: u64,
    /// The process that has the lease. A child made by `fork()` has no lease.
    process: u32,
}

impl Sequence {
    /// A sequence without a machine id, which makes no numbers.
    pub(super) fn without_machine(clock: Clock) -> Self {
        Self {
            clock,
            last: Layout::from_raw(0),
            limit: 0,
            process: world::process(),
        }
    }

    /// Continues with the numbers of `machine`. They are greater than all earlier numbers, even if the clock was set back.
    pub(super) fn start(&mut self, machine: u64, mut clock: Clock) {
        let last = self.last.timestamp();
        clock.millis = clock.millis.max(last);
        self.clock = clock;
        self.process = world::process();
        // This millisecond is full, so the next number takes the next millisecond.
        self.last = Layout::from_components(last, machine, Layout::max_sequence());
    }

    /// Allows numbers with times before `end`.
    pub(super) fn extend_until(&mut self, end: Instant) {
        self.limit = self.clock.millis(end).min(Layout::max_timestamp());
    }

    /// Stops the numbers of this machine id. Returns how far the time of the last number is ahead of the clock.
    pub(super) fn stop(&mut self) -> Duration {
        self.limit = 0;
        let ahead = self.last.timestamp().saturating_sub(self.millis());
        Duration::from_millis(ahead)
    }

    /// The next number, if the lease allows it.
    ///
    /// If there are more than 4096 numbers in a millisecond, they take the times of later milliseconds, so that no caller
    /// waits.
    pub(super) fn next(&mut self) -> Option<u64> {
        let now = self.millis();
        let last = self.last;
        let next = if now > last.timestamp() {
            last.rollover_to_timestamp(now)
        } else if last.has_sequence_room() {
            last.increment_sequence()
        } else {
            last.rollover_to_timestamp(last.timestamp() + 1)
        };
        // The time is checked for each number, because the process may have been suspended.
        if next.timestamp() >= self.limit || self.process != world::process() {
            return None;
        }
        self.last = next;
        Some(next.to_raw())
    }

    /// The time of a number that is made now, in milliseconds since [`EPOCH`].
    pub(super) fn millis(&self) -> u64 {
        self.clock.millis(Instant::now())
    }
}
