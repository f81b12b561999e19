//! Calls at once, and how long each took.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::exit::Failure;

/// How long each call took.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// In order.
    latencies: Vec<Duration>,
    lasted: Duration,
}

/// So many callers call one after another, each with numbers that no other has.
pub(crate) async fn measure(
    callers: u16,
    lasts: Duration,
    call: impl AsyncFn(u64) -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let begin = Instant::now();
    let call = &call;
    let caller = async |caller: u16| {
        let mut latencies = Vec::new();
        for number in 0_u32.. {
            let sent = Instant::now();
            if sent.duration_since(begin) >= lasts {
                break;
            }
            call(u64::from(caller) << 32 | u64::from(number)).await?;
            latencies.push(sent.elapsed());
        }
        Ok::<_, Failure>(latencies)
    };
    let latencies = try_join_all((0..callers).map(caller)).await?;
    let mut measured = Measured::default();
    measured.add(Measured {
        latencies: latencies.into_iter().flatten().collect(),
        lasted: begin.elapsed(),
    });
    Ok(measured)
}

impl Measured {
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.lasted += other.lasted;
    }

    pub(crate) fn calls(&self) -> usize {
        self.latencies.len()
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
    pub(crate) fn per_second(&self) -> f64 {
        self.calls() as f64 / self.lasted.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// So many of a hundred calls took at most this long.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.calls() * percent / 100).min(self.calls().saturating_sub(1));
        self.latencies.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_calls() {
        let mut measured = Measured::default();
        assert_eq!(measured.percentile(99), Duration::ZERO);
        for millis in [50..100, 0..50] {
            measured.add(Measured {
                latencies: millis.map(Duration::from_millis).collect(),
                lasted: Duration::from_millis(500),
            });
        }
        let percentiles = [0, 50, 99, 100].map(|percent| measured.percentile(percent));
        assert_eq!(percentiles, [0, 50, 99, 99].map(Duration::from_millis));
        assert!((measured.per_second() - 100.0).abs() < 0.1);
    }
}
