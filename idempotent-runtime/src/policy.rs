//! What an attribute compiles to: how long a key is held, and when it becomes free.

pub(crate) mod deadline;
pub(crate) mod duration;
pub(crate) mod times;

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

impl Policy {
    /// What a lost lease does to the body. Where bodies begin while the store is away, those that have begun go on, too.
    pub(crate) fn when_lost(&self) -> OnLeaseLost {
        self.on_lease_lost.unwrap_or(match self.on_store_error {
            Some(OnStoreError::Run) => OnLeaseLost::Continue,
            Some(OnStoreError::Refuse) | None => OnLeaseLost::Stop,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_runs_on_without_its_lease_where_bodies_run_without_a_store() {
        let (run, stop) = (OnStoreError::Run, OnLeaseLost::Stop);
        let policy = Policy::new(Duration::from_secs(10));
        assert_eq!(policy.when_lost(), stop);
        let running = policy.on_store_error(run);
        assert_eq!(running.when_lost(), OnLeaseLost::Continue);
        assert_eq!(running.on_lease_lost(stop).when_lost(), stop);
    }
}
