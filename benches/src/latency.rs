//! How long single calls take.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The duration of a lap, and of its calls.
pub struct Took {
    /// From the first call to the end of the last one.
    pub total: Duration,
    /// `None` if the calls were not measured one by one.
    pub latency: Option<Latency>,
}

/// Percentiles of the durations of calls, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// Half of the calls were faster.
    pub p50: f64,
    /// 99 of 100 calls were faster.
    pub p99: f64,
}

impl Took {
    /// A lap whose calls were not measured.
    pub(crate) fn total(total: Duration) -> Self {
        Self {
            total,
            latency: None,
        }
    }

    /// A lap whose calls took this long.
    pub(crate) fn each(total: Duration, calls: &[Vec<Duration>]) -> Self {
        let mut histogram = Histogram::<u32>::new(3).expect("three digits are possible");
        for call in calls.iter().flatten() {
            let nanos = u64::try_from(call.as_nanos()).expect("a call takes less than 500 years");
            histogram.record(nanos).expect("the histogram grows");
        }
        let at = |share| Duration::from_nanos(histogram.value_at_quantile(share)).as_secs_f64();
        Self {
            total,
            latency: Some(Latency {
                p50: at(0.5),
                p99: at(0.99),
            }),
        }
    }
}
