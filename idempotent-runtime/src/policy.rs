//! What an attribute compiles to: how long a key is held, and when it becomes free.

pub(crate) mod deadline;
pub(crate) mod duration;

use std::time::Duration;

/// When a key becomes free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Release {
    /// `release = true`: as soon as the body ends. Mutual exclusion: a later equal call runs again.
    Always,
    /// `release = "on_error"`: at once after a failure, `ttl` after the end of a success.
    #[default]
    OnError,
    /// `release = false`: `ttl` after the claim, whatever happens.
    Never,
}

/// How long the lease of a running body is kept alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Renew {
    /// `renew = true`: for the longer of one hour and the lease.
    #[default]
    Yes,
    /// `renew = false`: not at all; the lease must outlast the body.
    No,
    /// `renew = "10m"`: for this long, counted from the claim.
    Cap(Duration),
}

/// What happens to a running body whose caller drops the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnCancel {
    /// `on_cancel = "keep"`: the key is held until the lease ends.
    #[default]
    Keep,
    /// `on_cancel = "release"`: the key is freed at once.
    ///
    /// Whoever can drop the future, such as a client that closes its connection, can then have the beginning of the body run as often
    /// as it likes. Take it only where the body does nothing before its last await that may not be repeated.
    Release,
}

/// What happens to a running body whose claim could not be renewed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLeaseLost {
    /// `on_lease_lost = "stop"`: it is dropped at its next await. The default.
    #[default]
    Stop,
    /// `on_lease_lost = "continue"`: it runs on, loudly. The default with [`OnStoreError::Run`].
    Continue,
}

/// What happens to a call when the store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// `on_store_error = "refuse"`: the body does not run.
    #[default]
    Refuse,
    /// `on_store_error = "run"`: the body runs unguarded, loudly; and one that has begun runs on without its lease, unless
    /// `on_lease_lost` says otherwise.
    Run,
}

/// How one endpoint holds its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option that is on or off by itself"
)]
pub struct Policy {
    pub(crate) ttl: Duration,
    pub(crate) release: Release,
    pub(crate) lease: Option<Duration>,
    pub(crate) renew: Renew,
    pub(crate) on_cancel: OnCancel,
    pub(crate) on_lease_lost: Option<OnLeaseLost>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) wait: Option<Duration>,
    pub(crate) replay: bool,
    pub(crate) tx: bool,
    pub(crate) give_back: bool,
    /// The option `when` was false in this call.
    pub(crate) bypassed: bool,
}

impl Policy {
    /// A policy with this `ttl` and every other setting at its default.
    pub const fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            release: Release::OnError,
            lease: None,
            renew: Renew::Yes,
            on_cancel: OnCancel::Keep,
            on_lease_lost: None,
            on_store_error: None,
            wait: None,
            replay: false,
            tx: false,
            give_back: false,
            bypassed: false,
        }
    }

    /// Sets when the key becomes free.
    #[must_use]
    pub const fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Sets how long an unfinished claim outlives a silent holder; only with [`Release::OnError`].
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets how long the lease is kept alive.
    #[must_use]
    pub const fn renew(mut self, renew: Renew) -> Self {
        self.renew = renew;
        self
    }

    /// Sets what a dropped future does to the key.
    #[must_use]
    pub const fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.on_cancel = on_cancel;
        self
    }

    /// Sets what a lost lease does to the body; else that depends on [`on_store_error`](Self::on_store_error).
    #[must_use]
    pub const fn on_lease_lost(mut self, on_lease_lost: OnLeaseLost) -> Self {
        self.on_lease_lost = Some(on_lease_lost);
        self
    }

    /// Sets what an unavailable store does to the call.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = Some(on_store_error);
        self
    }

    /// Sets how long a duplicate of a running call waits for it to end.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Has duplicates be given the stored result; not with [`Release::Always`].
    #[must_use]
    pub const fn replay(mut self) -> Self {
        self.replay = true;
        self
    }

    /// Has the caller's transaction hold the key, so that there is no lease; not with [`Release::Always`].
    #[must_use]
    pub const fn tx(mut self) -> Self {
        self.tx = true;
        self
    }

    /// Has a call that ended without success give its one-time token back.
    ///
    /// With [`OnCancel::Release`], one that was dropped, too: then one token serves for as many beginnings of the body.
    #[must_use]
    pub const fn give_back(mut self) -> Self {
        self.give_back = true;
        self
    }
}

/// A policy's durations, checked and worked out for one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// How long a key stays taken after the call that ended it.
    pub(crate) ttl: Duration,
    /// How long the claim is good for after the holder's last word.
    pub(crate) lease: Duration,
    /// What the store is told: the lease and a grace, so that the holder stops before the key is free.
    pub(crate) expiry: Duration,
    /// For how long after the claim it is renewed.
    pub(crate) renew_for: Duration,
}

impl Policy {
    pub(crate) fn times(&self) -> Result<Times, &'static str> {
        if self.tx {
            return self.times_in_tx();
        }
        let lease = match (self.lease, self.release) {
            (Some(lease), Release::OnError) => lease,
            (None, Release::OnError) => self.ttl.min(DEFAULT_LEASE),
            (None, _) => self.ttl,
            (Some(_), _) => return Err("its lease is its ttl unless `release` is \"on_error\""),
        };
        if self.replay && self.release == Release::Always {
            return Err("`replay` does not go with `release = true`, which frees the key at once");
        }
        self.check(lease)?;
        let renew_for = match self.renew {
            Renew::Yes => lease.max(DEFAULT_CAP),
            Renew::No => Duration::ZERO,
            Renew::Cap(cap) if cap < lease => return Err("`renew` is shorter than the lease"),
            Renew::Cap(cap) => cap.min(LONGEST),
        };
        let grace = (lease / 10).clamp(SHORTEST_GRACE, LONGEST_GRACE);
        Ok(Times {
            ttl: self.ttl,
            lease,
            expiry: lease + grace,
            renew_for,
        })
    }

    /// The row of a call in a transaction stands for `ttl`, and nothing renews it.
    fn times_in_tx(&self) -> Result<Times, &'static str> {
        let leased = self.lease.is_some()
            || self.renew != Renew::Yes
            || self.on_cancel != OnCancel::Keep
            || self.on_lease_lost == Some(OnLeaseLost::Continue)
            || self.on_store_error == Some(OnStoreError::Run);
        if leased {
            return Err("the transaction holds its key, so there is no lease to be set");
        }
        if self.release == Release::Always {
            return Err("`release = true` frees the key at once, and its row is to be committed");
        }
        self.check(self.ttl)?;
        Ok(Times {
            ttl: self.ttl,
            lease: self.ttl,
            expiry: self.ttl,
            renew_for: Duration::ZERO,
        })
    }

    fn check(&self, lease: Duration) -> Result<(), &'static str> {
        if self.ttl.is_zero() {
            return Err("its ttl is zero, and there is no default");
        }
        if self.ttl < SHORTEST || lease < SHORTEST {
            return Err("a ttl or lease is shorter than a millisecond");
        }
        if self.ttl > LONGEST || lease > LONGEST {
            return Err("a ttl or lease is longer than a hundred years");
        }
        Ok(())
    }
}

impl Policy {
    /// What a lost lease does to the body. Where bodies begin while the store is away, those that have begun go on, too.
    pub(crate) fn when_lost(&self) -> OnLeaseLost {
        self.on_lease_lost.unwrap_or(match self.on_store_error {
            Some(OnStoreError::Run) => OnLeaseLost::Continue,
            Some(OnStoreError::Refuse) | None => OnLeaseLost::Stop,
        })
    }

    /// How long a duplicate waits for the end of a running call.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.wait
            .filter(|wait| !wait.is_zero())
            .map(|wait| wait.min(LONGEST))
    }

    /// Whether nothing is written after the body: the record of the claim says that the call is done, which it is
    /// once it is committed.
    pub(crate) fn is_done_at_once(&self) -> bool {
        self.tx && self.release == Release::OnError && !self.replay
    }

    /// Whether the record of a call says when it is over.
    pub(crate) fn marks_the_end(&self) -> bool {
        self.release != Release::Never || self.replay
    }
}

impl Times {
    /// From the claim to its first renewal.
    pub(crate) fn first_renewal(&self, release: Release) -> Duration {
        match release {
            Release::Never => self.lease / 3 * 2,
            _ => self.renewal(),
        }
    }

    /// From one renewal to the next.
    pub(crate) fn renewal(&self) -> Duration {
        self.lease / 3
    }
}

const DEFAULT_LEASE: Duration = Duration::from_secs(30);
const DEFAULT_CAP: Duration = Duration::from_hours(1);
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
const SHORTEST_GRACE: Duration = Duration::from_millis(250);
const LONGEST_GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_lease_is_the_shorter_of_ttl_and_half_a_minute_or_the_ttl_itself() {
        let lease = |policy: Policy| policy.times().unwrap().lease;
        assert_eq!(lease(Policy::new(secs(10))), secs(10));
        assert_eq!(lease(Policy::new(secs(600))), secs(30));
        assert_eq!(lease(Policy::new(secs(600)).lease(secs(60))), secs(60));
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
    fn a_body_runs_on_without_its_lease_where_bodies_run_without_a_store() {
        let (run, stop) = (OnStoreError::Run, OnLeaseLost::Stop);
        let policy = Policy::new(secs(10));
        assert_eq!(policy.when_lost(), stop);
        let running = policy.on_store_error(run);
        assert_eq!(running.when_lost(), OnLeaseLost::Continue);
        assert_eq!(running.on_lease_lost(stop).when_lost(), stop);
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused() {
        for policy in [
            Policy::new(Duration::ZERO),
            Policy::new(Duration::from_micros(999)),
            Policy::new(Duration::MAX),
            Policy::new(secs(10)).lease(Duration::ZERO),
            Policy::new(secs(10)).lease(secs(5)).release(Release::Never),
            Policy::new(secs(10)).renew(Renew::Cap(secs(9))),
            Policy::new(secs(10)).replay().release(Release::Always),
        ] {
            assert!(policy.times().is_err(), "{policy:?}");
        }
    }

    #[test]
    fn a_transaction_holds_its_key_without_a_lease() {
        let times = Policy::new(secs(600)).tx().times().unwrap();
        assert_eq!((times.ttl, times.expiry), (secs(600), secs(600)));
        for policy in [
            Policy::new(Duration::ZERO),
            Policy::new(secs(10)).release(Release::Always),
            Policy::new(secs(10)).lease(secs(5)),
            Policy::new(secs(10)).renew(Renew::No),
            Policy::new(secs(10)).on_cancel(OnCancel::Release),
            Policy::new(secs(10)).on_lease_lost(OnLeaseLost::Continue),
            Policy::new(secs(10)).on_store_error(OnStoreError::Run),
        ] {
            assert!(policy.tx().times().is_err(), "{policy:?}");
        }
    }
}
