//! The numbers of one machine id: in the order of time, none twice, and none beyond the end of its lease.

use std::time::{Duration, SystemTime};

use ferroid::id::{SnowflakeId as _, SnowflakeTwitterId as Layout};
use tokio::time::Instant;

use crate::world;

/// What the time in a number counts from: the first of January 2025. It lasts until 2094.
pub(super) const EPOCH: Duration = Duration::from_hours(482_136);

/// How many machine ids there are.
pub(super) const MACHINES: u64 = Layout::max_machine_id() + 1;

/// The time in a number, in milliseconds since [`EPOCH`].
pub(super) fn millis_of(number: u64) -> u64 {
    Layout::from_raw(number).timestamp()
}

/// The time of day as it was once, and the monotonic clock since: a step of the wall clock is not seen.
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

#[derive(Debug)]
pub(super) struct Sequence {
    clock: Clock,
    last: Layout,
    /// No number has this time or a later one.
    limit: u64,
    /// Whose lease it is. A copy of the process, made by `fork()`, has none.
    process: u32,
}

impl Sequence {
    /// Without a machine id there are no numbers.
    pub(super) fn without_machine(clock: Clock) -> Self {
        Self {
            clock,
            last: Layout::from_raw(0),
            limit: 0,
            process: world::process(),
        }
    }

    /// Goes on with the numbers of `machine`. They are greater than all before, whatever the clock says.
    pub(super) fn start(&mut self, machine: u64, mut clock: Clock) {
        let last = self.last.timestamp();
        clock.millis = clock.millis.max(last);
        self.clock = clock;
        self.process = world::process();
        // A millisecond that is full: the next number begins another.
        self.last = Layout::from_components(last, machine, Layout::max_sequence());
    }

    pub(super) fn extend_until(&mut self, end: Instant) {
        self.limit = self.clock.millis(end).min(Layout::max_timestamp());
    }

    /// No more numbers of this machine id. How far the last one is ahead of the clock.
    pub(super) fn stop(&mut self) -> Duration {
        self.limit = 0;
        let ahead = self.last.timestamp().saturating_sub(self.millis());
        Duration::from_millis(ahead)
    }

    /// The next number, if the lease allows it.
    ///
    /// More than 4096 in a millisecond have the time of later ones, rather than having the caller wait.
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
        // Also after the process was frozen: the time is looked at for each number.
        if next.timestamp() >= self.limit || self.process != world::process() {
            return None;
        }
        self.last = next;
        Some(next.to_raw())
    }

    /// The time that numbers have now, in milliseconds since [`EPOCH`].
    pub(super) fn millis(&self) -> u64 {
        self.clock.millis(Instant::now())
    }
}
