//! The durations of a call, derived from its policy.

use std::time::Duration;

use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};

/// The checked durations of one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// How long the claim is valid after its last renewal.
    pub(crate) lease_time: Duration,
    /// The expiry in the store: the lease and a grace period, so that the holder stops before the key becomes free.
    pub(crate) expiry: Duration,
    /// How long after the claim the lease is renewed.
    pub(crate) renew_for: Duration,
}

impl Policy {
    pub(crate) fn times(&self) -> Result<Times, &'static str> {
        if self.tx {
            return self.times_in_tx();
        }
        let lease = match (self.lease, self.release) {
            (Some(lease), Release::OnError) => lease,
            (None, Release::OnError) => {
                let at_least = self.at_least.unwrap_or_default();
                self.ttl.min(DEFAULT_LEASE.max(at_least))
            }
            (None, _) => self.ttl,
            (Some(_), _) => {
                return Err(
                    "`lease` needs `release = \"on_error\"`: with other values the lease is the `ttl`",
                );
            }
        };
        if self.replay && self.release == Release::Always {
            return Err(
                "`replay` cannot be combined with `release = true`, which frees the key at once",
            );
        }
        self.check(lease)?;
        if self.at_least.is_some_and(|at_least| at_least > lease) {
            return Err(AT_LEAST_TOO_LONG);
        }
        let renew_for = match self.renew {
            Renew::Yes => lease.max(DEFAULT_CAP),
            Renew::No => Duration::ZERO,
            Renew::Cap(cap) if cap < lease => {
                return Err("`renew` is shorter than the lease: it must be at least the lease");
            }
            Renew::Cap(cap) => cap.min(LONGEST),
        };
        let grace = (lease / 10).clamp(SHORTEST_GRACE, LONGEST_GRACE);
        Ok(Times {
            lease_time: lease,
            expiry: lease + grace,
            renew_for,
        })
    }

    /// How long a duplicate waits for the end of a running call.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        self.wait
            .filter(|wait| !wait.is_zero())
            .map(|wait| wait.min(LONGEST))
    }

    /// The durations of a call in a transaction: its row is stored for `ttl` and is never renewed.
    fn times_in_tx(&self) -> Result<Times, &'static str> {
        let leased = self.lease.is_some()
            || self.at_least.is_some()
            || self.renew != Renew::Yes
            || self.on_cancel != OnCancel::Keep
            || self.on_lease_lost == Some(OnLeaseLost::Continue)
            || self.on_store_error == Some(OnStoreError::Run);
        if leased {
            return Err(
                "`lease`, `at_least`, `renew`, `on_cancel`, `on_lease_lost` and `on_store_error` cannot be combined with `tx`, whose transaction holds the key",
            );
        }
        if self.release == Release::Always {
            return Err(
                "`release = true` cannot be combined with `tx`, whose row must be committed: use \"on_error\" or `false`",
            );
        }
        self.check(self.ttl)?;
        Ok(Times {
            lease_time: self.ttl,
            expiry: self.ttl,
            renew_for: Duration::ZERO,
        })
    }

    fn check(&self, lease: Duration) -> Result<(), &'static str> {
        if self.ttl.is_zero() {
            return Err("`ttl` is missing or zero: it must be between 1 ms and 100 years");
        }
        if self.ttl < SHORTEST_TTL || lease < SHORTEST_TTL {
            return Err(
                "`ttl` or `lease` is shorter than 1 ms: each must be between 1 ms and 100 years",
            );
        }
        if self.ttl > LONGEST || lease > LONGEST {
            return Err(
                "`ttl` or `lease` is longer than 100 years: each must be between 1 ms and 100 years",
            );
        }
        Ok(())
    }
}

impl Times {
    /// The time from the claim to its first renewal.
    pub(crate) fn first_renewal(&self, release: Release) -> Duration {
        match release {
            Release::Never => self.lease_time / 3 * 2,
            _ => self.renewal(),
        }
    }

    /// The time between two renewals.
    pub(crate) fn renewal(&self) -> Duration {
        self.lease_time / 3
    }

    /// The time since its last renewal after which a holder is late: a renewal may be on its way for `deadline`.
    pub(crate) fn overdue(&self, deadline: Duration) -> Duration {
        let renewal = self.renewal();
        renewal + renewal.min(deadline)
    }

    /// How long ago the last renewal of a call was due that has run for `age`; the `age` before its first renewal.
    pub(crate) fn since_renewal(&self, age: Duration) -> Duration {
        let (renewed, between) = (age.min(self.renew_for), self.renewal());
        if renewed < between {
            return age;
        }
        // The longest lease has fewer nanoseconds than `u64::MAX`, and these divide faster than a `u128`.
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let after_last = nanos(renewed).checked_rem(nanos(between));
        let after_last = Duration::from_nanos(after_last.unwrap_or_default());
        age.saturating_sub(renewed.saturating_sub(after_last))
    }
}

/// The only reason that is about two of the settings.
pub(crate) const AT_LEAST_TOO_LONG: &str = "`at_least` is longer than the lease, at whose end the key of a dead process becomes free: it must be \
     at most the lease";
const DEFAULT_LEASE: Duration = Duration::from_secs(30);
const DEFAULT_CAP: Duration = Duration::from_hours(1);
/// The shortest time to live that a store accepts.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(1);
pub(crate) const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
const SHORTEST_GRACE: Duration = Duration::from_millis(250);
const LONGEST_GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_default_lease_is_at_most_half_a_minute_or_the_ttl_and_never_shorter_than_at_least() {
        let lease = |policy: Policy| policy.times().unwrap().lease_time;
        assert_eq!(lease(Policy::new(secs(10))), secs(10));
        assert_eq!(lease(Policy::new(secs(600))), secs(30));
        assert_eq!(lease(Policy::new(secs(600)).lease(secs(60))), secs(60));
        assert_eq!(lease(Policy::new(secs(600)).at_least(secs(60))), secs(60));
        assert_eq!(
            lease(Policy::new(secs(600)).release(Release::Always)),
            secs(600)
        );
        assert_eq!(
            lease(Policy::new(secs(600)).release(Release::Never)),
            secs(600)
        );
    }

    #[test]
    fn the_grace_is_a_tenth_of_the_lease_within_bounds() {
        let expiry = |ttl| {
            Policy::new(ttl)
                .release(Release::Always)
                .times()
                .unwrap()
                .expiry
        };
        assert_eq!(expiry(secs(1)), Duration::from_millis(1250));
        assert_eq!(expiry(secs(20)), secs(22));
        assert_eq!(expiry(secs(600)), secs(605));
    }

    #[test]
    fn renewal_is_capped_at_the_longer_of_an_hour_and_the_lease() {
        let renewed = |policy: Policy| policy.times().unwrap().renew_for;
        assert_eq!(renewed(Policy::new(secs(10))), secs(3600));
        assert_eq!(
            renewed(Policy::new(secs(7200)).release(Release::Always)),
            secs(7200)
        );
        assert_eq!(
            renewed(Policy::new(secs(10)).renew(Renew::No)),
            Duration::ZERO
        );
        assert_eq!(
            renewed(Policy::new(secs(10)).renew(Renew::Cap(secs(60)))),
            secs(60)
        );
    }

    #[test]
    fn a_renewal_is_due_after_each_third_of_the_lease_until_the_cap() {
        let since = |policy: Policy, age| policy.times().unwrap().since_renewal(secs(age));
        let policy = Policy::new(secs(60));
        for (age, since_renewal) in [(0, 0), (9, 9), (10, 0), (29, 9), (3600, 0), (3605, 5)] {
            assert_eq!(since(policy, age), secs(since_renewal), "{age}");
        }
        assert_eq!(since(policy.renew(Renew::No), 25), secs(25));
        assert_eq!(since(policy.renew(Renew::Cap(secs(35))), 60), secs(30));
    }

    #[test]
    fn a_policy_that_is_out_of_range_or_contradictory_is_refused() {
        for policy in [
            Policy::new(Duration::ZERO),
            Policy::new(Duration::from_micros(999)),
            Policy::new(Duration::MAX),
            Policy::new(secs(10)).lease(Duration::ZERO),
            Policy::new(secs(10)).lease(secs(5)).release(Release::Never),
            Policy::new(secs(10)).renew(Renew::Cap(secs(9))),
            Policy::new(secs(10)).replay().release(Release::Always),
            Policy::new(secs(10)).at_least(secs(11)),
            Policy::new(secs(60)).lease(secs(5)).at_least(secs(6)),
        ] {
            assert!(policy.times().is_err(), "{policy:?}");
        }
    }

    #[test]
    fn a_transaction_holds_its_key_without_a_lease() {
        let times = Policy::new(secs(600)).tx().times().unwrap();
        assert_eq!(times.expiry, secs(600));
        for policy in [
            Policy::new(Duration::ZERO),
            Policy::new(secs(10)).release(Release::Always),
            Policy::new(secs(10)).lease(secs(5)),
            Policy::new(secs(10)).at_least(secs(5)),
            Policy::new(secs(10)).renew(Renew::No),
            Policy::new(secs(10)).on_cancel(OnCancel::Release),
            Policy::new(secs(10)).on_lease_lost(OnLeaseLost::Continue),
            Policy::new(secs(10)).on_store_error(OnStoreError::Run),
        ] {
            assert!(policy.tx().times().is_err(), "{policy:?}");
        }
    }
}
