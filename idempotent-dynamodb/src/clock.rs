//! The clock of DynamoDB, measured by the `Date` of every answer.
//!
//! A condition of DynamoDB has no clock, so the store sends the time. `Date` counts in seconds, and the answer takes its time, so the
//! time is known as a range. A record is stored by the end of the range and expires by its beginning: never too early.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_types::config_bag::{Storable, StoreReplace};

/// A difference between the two clocks of this machine that is not the scheduler's.
const STEP: i64 = 500;
const SECOND: i64 = 1000;
/// A clock runs wrong by less than this part: chrony corrects both clocks of a machine by a twelfth at most.
const DRIFT: u64 = 11;
/// How long a measurement is used, in milliseconds.
const LONGEST: u64 = 20_000;
/// How much longer a record may live because the time is a range: once when it is stored, and once when it is compared.
pub(crate) const INEXACT: Duration =
    Duration::from_millis(2 * (SECOND.unsigned_abs() + 2 * LONGEST / DRIFT));
/// A request that was sent so long before may belong to the same operation.
const LONGEST_OPERATION: Duration = Duration::from_mins(10);

/// The clock of DynamoDB, as this machine knows it.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    source: SharedTimeSource,
    distance: Arc<Mutex<Option<Distance>>>,
}

/// When it is at DynamoDB, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
    read: Instant,
}

/// How far DynamoDB's clock is ahead of the clock of this machine, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Distance {
    least: i64,
    most: i64,
    measured: Reading,
    /// When an answer last showed that the clock had been wrong.
    corrected: Option<Instant>,
}

/// The two clocks of this machine: the time of day, in milliseconds since 1970, which may be set, and the steady clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    wall: i64,
    steady: Instant,
}

impl Clock {
    pub(crate) fn new(source: SharedTimeSource) -> Self {
        let distance = Arc::default();
        Self { source, distance }
    }

    /// The time at DynamoDB. `None` before the first answer, twenty seconds after the last answer, and if the clock of this machine was
    /// set since.
    pub(crate) fn now(&self) -> Option<Now> {
        self.at(self.read())
    }

    fn at(&self, now: Reading) -> Option<Now> {
        let distance = (*self.lock())?.at(now)?;
        Some(Now {
            earliest: now.wall + distance.least,
            latest: now.wall + distance.most,
            read: now.steady,
        })
    }

    /// Whether the clock was wrong at `then` by more than `margin`, as an answer since then has shown.
    pub(crate) fn was_late(&self, then: Now, margin: Duration) -> bool {
        self.now().is_none_or(|now| now.shows_wrong(then, margin))
    }

    /// Whether the clock was wrong at `then`, or shortly before: an earlier request of the same operation may have been late.
    pub(crate) fn may_have_been_late(&self, then: Now, margin: Duration) -> bool {
        let corrected = self.lock().and_then(|distance| distance.corrected);
        self.was_late(then, margin) || corrected.is_some_and(|at| at.elapsed() < LONGEST_OPERATION)
    }

    /// How far DynamoDB's clock is ahead of the clock of this machine at least, in milliseconds; negative if it is behind.
    pub(crate) fn distance(&self) -> Option<i64> {
        let distance = (*self.lock())?;
        Some(distance.least.max(0) + distance.most.min(0))
    }

    fn read(&self) -> Reading {
        Reading {
            wall: millis(self.source.now()),
            steady: Instant::now(),
        }
    }

    /// An answer has this date, in milliseconds since 1970.
    fn observe(&self, sent: Reading, received: Reading, date: i64) {
        if sent.is_set_before(received) {
            return;
        }
        let mut seen = Distance {
            least: date - received.wall,
            most: date + SECOND - sent.wall,
            measured: received,
            corrected: None,
        };
        let mut distance = self.lock();
        if let Some(known) = *distance {
            let aged = known.at(received);
            let both = aged.map(|aged| (seen.least.max(aged.least), seen.most.min(aged.most)));
            let contradicts = known.measured.is_set_before(received)
                || both.is_some_and(|(least, most)| least > most);
            if contradicts {
                seen.corrected = Some(received.steady);
            } else {
                seen.corrected = known.corrected;
                (seen.least, seen.most) = both.unwrap_or((seen.least, seen.most));
            }
        }
        *distance = Some(seen);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Distance>> {
        self.distance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Distance {
    /// The distance later, when the two clocks have drifted. `None` if the measurement is old, or the clock of this machine was set.
    fn at(mut self, later: Reading) -> Option<Self> {
        let age = self.measured.millis_to(later);
        if age > LONGEST || self.measured.is_set_before(later) {
            return None;
        }
        let drift = i64::try_from(age.div_ceil(DRIFT)).ok()?;
        self.least -= drift;
        self.most += drift;
        Some(self)
    }
}

impl Now {
    fn shows_wrong(self, then: Self, margin: Duration) -> bool {
        let passed = self.read.saturating_duration_since(then.read);
        self.latest > then.latest + whole_millis(passed) + whole_millis(margin)
    }
}

impl Reading {
    /// The milliseconds to this later reading, by the steady clock.
    fn millis_to(self, later: Self) -> u64 {
        let passed = later.steady.saturating_duration_since(self.steady);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the time of day was set, or the machine was suspended, before this later reading.
    fn is_set_before(self, later: Self) -> bool {
        let passed = i64::try_from(self.millis_to(later)).unwrap_or(i64::MAX);
        (later.wall - self.wall).abs_diff(passed) > STEP.unsigned_abs()
    }
}

impl Storable for Reading {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Clock {
    fn name(&self) -> &'static str {
        "idempotence::Clock"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(self.read());
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response().headers();
        // Without this header the answer is of a proxy, whose clock may be wrong.
        let date = headers.get("x-amzn-requestid");
        let date = date.and_then(|_| headers.get("date"));
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        if let (Some(date), Some(sent)) = (date, config.load::<Reading>()) {
            self.observe(*sent, self.read(), date.secs().saturating_mul(SECOND));
        }
        Ok(())
    }
}

/// Milliseconds since 1970.
fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    whole_millis(since.unwrap_or_default())
}

/// Milliseconds, rounded up, at most about a million years.
pub(crate) fn whole_millis(duration: Duration) -> i64 {
    const MOST: i64 = i64::MAX >> 8;
    let millis = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock, and readings of its machine after so many milliseconds.
    fn clock() -> (Clock, impl Fn(u64) -> Reading) {
        let begin = Instant::now();
        let reading = move |after| Reading {
            wall: 50_000 + i64::try_from(after).expect("a time"),
            steady: begin + Duration::from_millis(after),
        };
        (Clock::new(SharedTimeSource::default()), reading)
    }

    fn is_corrected(clock: &Clock) -> bool {
        clock.lock().is_some_and(|known| known.corrected.is_some())
    }

    fn range(now: Option<Now>) -> Option<(i64, i64)> {
        now.map(|now| (now.earliest, now.latest))
    }

    #[test]
    fn answers_narrow_the_range_of_the_time() {
        let (clock, after) = clock();
        assert_eq!(range(clock.at(after(0))), None);
        // The date is between 70.0 and 71.0, at a time between 50.0 and 50.2.
        clock.observe(after(0), after(200), 70_000);
        assert_eq!(clock.distance(), Some(19_800));
        assert_eq!(range(clock.at(after(200))), Some((70_000, 71_200)));
        // A slow answer does not widen it.
        clock.observe(after(300), after(4_600), 70_000);
        assert_eq!(range(clock.at(after(4_600))), Some((74_000, 75_300)));
        clock.observe(after(5_000), after(5_000), 75_000);
        assert_eq!(range(clock.at(after(5_000))), Some((75_000, 75_737)));
        assert_eq!(range(clock.at(after(6_100))), Some((76_000, 76_937)));
    }

    #[test]
    fn a_measurement_becomes_less_exact_and_ends_after_twenty_seconds() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        assert_eq!(range(clock.at(after(20_000))), Some((88_181, 92_819)));
        assert_eq!(range(clock.at(after(20_001))), None);
        // An old measurement does not narrow a new one.
        clock.observe(after(20_001), after(20_001), 140_000);
        assert_eq!(range(clock.at(after(20_001))), Some((140_000, 141_000)));
        assert!(!is_corrected(&clock));
    }

    #[test]
    fn the_range_has_the_time_also_while_the_clocks_of_the_machine_are_corrected() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        for shown in (0..20_000).step_by(100) {
            let (earliest, latest) = range(clock.at(after(shown))).expect("a time");
            let shown = i64::try_from(shown).expect("a time");
            let (fewest, most) = (shown * 12 / 13, shown * 12 / 11);
            assert!(earliest <= 70_000 + fewest, "both ran faster for {shown}");
            assert!(latest >= 71_000 + most, "both ran slower for {shown}");
        }
    }

    #[test]
    fn a_machine_whose_clock_was_set_asks_again() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        let set = |after: Reading, by| Reading {
            wall: after.wall + by,
            ..after
        };
        for by in [-60_000, 60_000] {
            assert_eq!(range(clock.at(set(after(10), by))), None);
            // The clock was set during the request, so nothing is known.
            clock.observe(after(10), set(after(20), by), 70_000);
            assert_eq!(range(clock.at(set(after(20), by))), None);
        }
        let by = -60_000;
        clock.observe(set(after(30), by), set(after(30), by), 70_000);
        assert_eq!(range(clock.at(set(after(30), by))), Some((70_000, 71_000)));
    }

    #[test]
    fn an_answer_shows_that_the_time_of_its_request_was_wrong() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        let (then, margin) = (clock.at(after(0)).expect("a time"), Duration::from_secs(2));
        // Both clocks of the machine stood still for a minute.
        clock.observe(after(0), after(0), 130_000);
        let now = clock.at(after(0)).expect("a time");
        assert!(now.shows_wrong(then, margin));
        assert!(is_corrected(&clock));
    }

    #[test]
    fn a_time_to_live_is_rounded_up() {
        for (duration, millis) in [
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::MAX, i64::MAX >> 8),
        ] {
            assert_eq!(whole_millis(duration), millis);
        }
    }
}
