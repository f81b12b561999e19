//! How long to wait before the next try.

use std::time::Duration;

/// Pauses that grow exponentially, with full jitter: each is a random part of its ceiling, so that clients that lost one server
/// at once do not come back at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// The ceiling of the first pause.
    pub(crate) first: Duration,
    /// The highest ceiling.
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pause after this many tries. If the server names a time, the pause is that time and a random part of the first ceiling.
    pub(crate) fn pause(self, tries: u32, named: Option<Duration>) -> Duration {
        match named {
            Some(named) => named.saturating_add(part_of(self.first)),
            None => part_of(self.ceiling(tries)),
        }
    }

    fn ceiling(self, tries: u32) -> Duration {
        let factor = 2_u32.saturating_pow(tries.saturating_sub(1));
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// A random part of a time.
fn part_of(whole: Duration) -> Duration {
    // Without a generator the whole time is the safe choice.
    let bits = getrandom::u32().unwrap_or(u32::MAX);
    let seconds = whole.as_secs_f64() * f64::from(bits) / f64::from(u32::MAX);
    Duration::try_from_secs_f64(seconds).map_or(whole, |part| part.min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BACKOFF: Backoff = Backoff {
        first: SECOND,
        longest: Duration::from_secs(10),
    };

    #[test]
    fn ceilings_double_up_to_the_longest() {
        let ceilings = [1, 2, 3, 4, 5, 6, u32::MAX].map(|tries| BACKOFF.ceiling(tries));
        assert_eq!(
            ceilings,
            [1, 2, 4, 8, 10, 10, 10].map(|seconds| SECOND * seconds)
        );
    }

    #[test]
    fn pauses_are_spread_from_nothing_to_their_ceiling() {
        let pauses: Vec<Duration> = (0..1000).map(|_| BACKOFF.pause(4, None)).collect();
        assert!(pauses.iter().all(|pause| *pause <= SECOND * 8));
        assert!(pauses.iter().any(|pause| *pause < SECOND));
        assert!(pauses.iter().any(|pause| *pause > SECOND * 7));
    }

    #[test]
    fn a_pause_is_never_shorter_than_the_time_that_the_server_names() {
        let named = Duration::from_millis(2500);
        for _ in 0..1000 {
            let pause = BACKOFF.pause(1, Some(named));
            assert!(named <= pause && pause <= named + SECOND, "{pause:?}");
        }
        assert_eq!(BACKOFF.pause(1, Some(Duration::MAX)), Duration::MAX);
        let endless = Backoff {
            first: Duration::MAX,
            longest: Duration::MAX,
        };
        assert!(endless.pause(9, None) <= Duration::MAX);
    }
}
