//! The clock of DynamoDB, measured by the `Date` of every answer.
//!
//! A condition of DynamoDB has no clock, so the store sends the time. `Date` counts in seconds, and the answer takes its time, so the
//! time is known as a range. A record is stored by the end of the range and expires by its beginning: never too early.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_types::config_bag::{Storable, StoreReplace};

/// The time of day passes faster than the steady clock by more than this if it was set, or if the machine slept.
const STEP: Duration = Duration::from_millis(500);
const SECOND: i64 = 1000;
/// A clock runs wrong by less than this part: chrony corrects both clocks of a machine by a twelfth at most.
const DRIFT: i64 = 11;
/// How long a measurement is used, in milliseconds.
const LONGEST: i64 = 20_000;
/// How much longer a record may live because the time is a range: once when it is stored, and once when it is compared.
pub(crate) const INEXACT: Duration =
    Duration::from_millis(2 * (SECOND + 2 * LONGEST / DRIFT).unsigned_abs());
/// A request that was sent so long before may belong to the same operation.
const LONGEST_OPERATION: Duration = Duration::from_mins(10);

/// The clock of DynamoDB, as this machine knows it.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    source: SharedTimeSource,
    measured: Arc<Mutex<Measured>>,
}

/// When it is at DynamoDB, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
    read: Reading,
}

#[derive(Debug, Default)]
struct Measured {
    now: Option<Now>,
    /// When an answer last showed that the clock had been wrong.
    corrected: Option<Instant>,
}

/// The two clocks of this machine: the steady one, which may stop while the machine sleeps, and the time of day, which may be set.
#[derive(Debug, Clone, Copy)]
struct Reading {
    steady: Instant,
    day: SystemTime,
}

impl Clock {
    pub(crate) fn new(source: SharedTimeSource) -> Self {
        let measured = Arc::default();
        Self { source, measured }
    }

    /// The time at DynamoDB. `None` before the first answer, twenty seconds after the last answer, and if this machine slept since.
    pub(crate) fn now(&self) -> Option<Now> {
        self.at(self.read())
    }

    fn at(&self, read: Reading) -> Option<Now> {
        self.lock().now?.at(read)
    }

    /// Whether the clock was wrong at `then` by more than `margin`, as an answer since then has shown.
    pub(crate) fn was_late(&self, then: Now, margin: Duration) -> bool {
        self.now().is_none_or(|now| now.shows_wrong(then, margin))
    }

    /// Whether the clock was wrong at `then`, or shortly before: an earlier request of the same operation may have been late.
    pub(crate) fn may_have_been_late(&self, then: Now, margin: Duration) -> bool {
        let corrected = self.lock().corrected;
        self.was_late(then, margin) || corrected.is_some_and(|at| at.elapsed() < LONGEST_OPERATION)
    }

    fn read(&self) -> Reading {
        Reading {
            steady: Instant::now(),
            day: self.source.now(),
        }
    }

    /// An answer has this date, in milliseconds since 1970.
    fn observe(&self, sent: Reading, received: Reading, date: i64) {
        if sent.sleeps_before(received) {
            return;
        }
        let seen = Now {
            earliest: date,
            latest: date + SECOND + sent.millis_to(received),
            read: received,
        };
        let mut measured = self.lock();
        let known = measured.now.replace(seen);
        if known.is_some_and(|known| known.read.sleeps_before(received)) {
            measured.corrected = Some(received.steady);
        } else if let Some(known) = known.and_then(|known| known.at(received)) {
            let (earliest, latest) = (
                seen.earliest.max(known.earliest),
                seen.latest.min(known.latest),
            );
            if earliest > latest {
                measured.corrected = Some(received.steady);
            } else {
                measured.now = Some(Now {
                    earliest,
                    latest,
                    ..seen
                });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// How far DynamoDB's clock is ahead of the time of day of this machine at least, in milliseconds; negative if it is behind.
    pub(crate) fn distance(self) -> i64 {
        let day = self.read.day.duration_since(SystemTime::UNIX_EPOCH);
        let day = whole_millis(day.unwrap_or_default());
        (self.earliest - day).max(0) + (self.latest - day).min(0)
    }

    /// The time later. `None` if the measurement is old, or the machine slept.
    fn at(self, later: Reading) -> Option<Self> {
        let age = self.read.millis_to(later);
        let drift = (age + DRIFT - 1) / DRIFT;
        (age <= LONGEST && !self.read.sleeps_before(later)).then(|| Self {
            earliest: self.earliest + age - drift,
            latest: self.latest + age + drift,
            read: later,
        })
    }

    fn shows_wrong(self, then: Self, margin: Duration) -> bool {
        self.latest > then.latest + then.read.millis_to(self.read) + whole_millis(margin)
    }
}

impl Reading {
    /// The milliseconds to this later reading, by the steady clock.
    fn millis_to(self, later: Self) -> i64 {
        let passed = later.steady.saturating_duration_since(self.steady);
        i64::try_from(passed.as_millis()).unwrap_or(i64::MAX >> 8)
    }

    /// Whether the machine slept, or its time of day was set, before this later reading.
    fn sleeps_before(self, later: Self) -> bool {
        let passed = later.steady.saturating_duration_since(self.steady);
        let of_day = later.day.duration_since(self.day);
        of_day.is_ok_and(|of_day| of_day > passed + STEP)
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
        if let (Some(date), Some(sent)) = (date(context.response()), config.load::<Reading>()) {
            self.observe(*sent, self.read(), date);
        }
        Ok(())
    }
}

/// The date of an answer of the service, in milliseconds since 1970. The clock of a proxy that answers itself may be wrong.
fn date(answer: &HttpResponse) -> Option<i64> {
    let headers = answer.headers();
    let is_of_service = headers.contains_key("x-amzn-requestid")
        // Alternator sends no ids.
        || headers.get("content-type") == Some("application/x-amz-json-1.0");
    let date = headers.get("date").filter(|_| is_of_service)?;
    let date = DateTime::from_str(date, DateTimeFormat::HttpDate).ok()?;
    Some(date.secs().saturating_mul(SECOND))
}

/// Milliseconds, rounded up, at most about a million years.
pub(crate) fn whole_millis(duration: Duration) -> i64 {
    const MOST: i64 = i64::MAX >> 8;
    let millis = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::body::SdkBody;

    use super::*;

    /// A clock, and readings of its machine after so many milliseconds.
    fn clock() -> (Clock, impl Fn(u64) -> Reading) {
        let begin = Instant::now();
        let reading = move |after| Reading {
            steady: begin + Duration::from_millis(after),
            day: SystemTime::UNIX_EPOCH + Duration::from_millis(50_000 + after),
        };
        (Clock::new(SharedTimeSource::default()), reading)
    }

    fn is_corrected(clock: &Clock) -> bool {
        clock.lock().corrected.is_some()
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
        let now = clock.at(after(200));
        assert_eq!(range(now), Some((70_000, 71_200)));
        assert_eq!(now.map(Now::distance), Some(19_800));
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
    fn a_machine_that_slept_asks_again() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        let awake = |after: Reading| Reading {
            day: after.day + Duration::from_mins(1),
            ..after
        };
        assert_eq!(range(clock.at(awake(after(10)))), None);
        // It slept during the request, so nothing is known.
        clock.observe(after(10), awake(after(20)), 130_000);
        assert_eq!(range(clock.at(awake(after(20)))), None);
        assert!(!is_corrected(&clock));
        clock.observe(awake(after(30)), awake(after(30)), 130_000);
        let now = range(clock.at(awake(after(30))));
        assert_eq!(now, Some((130_000, 131_000)));
        assert!(is_corrected(&clock));
    }

    #[test]
    fn a_time_of_day_that_is_set_back_does_not_count() {
        let (clock, after) = clock();
        clock.observe(after(0), after(0), 70_000);
        let set = Reading {
            day: SystemTime::UNIX_EPOCH,
            ..after(0)
        };
        assert_eq!(range(clock.at(set)), Some((70_000, 71_000)));
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
    fn the_date_counts_of_answers_of_the_service_and_not_of_a_proxy() {
        let date_with = |name: &'static str, value: &'static str| {
            let status = 200.try_into().expect("a status");
            let mut answer = HttpResponse::new(status, SdkBody::empty());
            let headers = answer.headers_mut();
            headers.insert("date", "Thu, 01 Jan 1970 00:00:07 GMT");
            headers.insert(name, value);
            date(&answer)
        };
        let aws = date_with("x-amzn-requestid", "7");
        let alternator = date_with("content-type", "application/x-amz-json-1.0");
        let proxy = date_with("content-type", "text/html");
        assert_eq!([aws, alternator, proxy], [Some(7000), Some(7000), None]);
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
