//! The policy that an attribute compiles to: how long a key is held, and when it becomes free.

mod claimed;
pub(crate) mod claims;
pub(crate) mod deadline;
pub(crate) mod duration;
pub(crate) mod times;

use std::time::Duration;

use self::claims::Claims;

/// When a key becomes free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Release {
    /// `release = true`: as soon as the body returns. This is mutual exclusion: a later equal call runs again.
    Always,
    /// `release = "on_error"`: immediately after a failure, `ttl` after a success.
    #[default]
    OnError,
    /// `release = false`: `ttl` after the claim, whatever the outcome.
    Never,
}

/// How long the lease of a running body is renewed.
#[doc(alias("watchdog"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Renew {
    /// `renew = true`: for the longer of one hour and the lease.
    #[default]
    Yes,
    /// `renew = false`: not at all. The lease must be longer than the body runs.
    No,
    /// `renew = "10m"`: for this long, counted from the claim.
    Cap(Duration),
}

/// What happens to a running body whose caller drops the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnCancel {
    /// `on_cancel = "keep"`: the key stays taken until the lease expires.
    #[default]
    Keep,
    /// `on_cancel = "release"`: the key becomes free immediately.
    ///
    /// Every caller that can drop the future, for example a client that closes its connection, can then make the start of the
    /// body run any number of times. Use this only if everything that the body does before its last await may be repeated.
    Release,
}

/// What happens to a running body whose claim could not be renewed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLeaseLost {
    /// `on_lease_lost = "stop"`: the body is dropped at its next await. The default.
    #[default]
    Stop,
    /// `on_lease_lost = "continue"`: the body continues, and an event reports it. The default with [`OnStoreError::Run`].
    Continue,
}

/// What happens to a call when the store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// `on_store_error = "refuse"`: the body does not run.
    #[default]
    Refuse,
    /// `on_store_error = "run"`: the body runs unguarded, and an event reports it. A running body continues without its lease,
    /// unless `on_lease_lost` is set to `"stop"`.
    Run,
}

/// When a call returns, after its body has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Settle {
    /// `settle = "await"`: after its end is in the store, or after the handle's deadline.
    #[default]
    Await,
    /// `settle = "background"`: at once, while its end is on its way to the store.
    ///
    /// The call saves a round trip. If its process or its runtime ends before, or stands still until the key has expired, the key stays
    /// taken until then; with a result that is stored, the next call then runs again although the caller had the result.
    Background,
}

/// Where the options of a policy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetIn {
    Attribute,
    Layer {
        /// The `ttl` is the default of the layer.
        has_default_ttl: bool,
    },
}

/// How one endpoint holds its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option"
)]
pub struct Policy {
    pub(crate) ttl: Duration,
    /// Where the options are, for the list of endpoints.
    pub(crate) set_in: SetIn,
    pub(crate) release: Release,
    pub(crate) lease: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) renew: Renew,
    pub(crate) on_cancel: OnCancel,
    pub(crate) on_lease_lost: Option<OnLeaseLost>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) settle: Settle,
    pub(crate) wait: Option<Duration>,
    pub(crate) replay: bool,
    pub(crate) tx: bool,
    pub(crate) give_back: bool,
    pub(crate) fence: bool,
    /// Whether the call redeems a one-time token.
    pub(crate) token: bool,
    pub(crate) claims: Claims,
    /// Whether the setting `disabled` is true for the endpoint. No attribute sets it.
    pub(crate) disabled: bool,
    /// Whether the option `when` was false in this call.
    pub(crate) bypassed: bool,
    /// Whether all endpoints of the layer for HTTP share their keys.
    pub(crate) shares_keys: bool,
}

impl Policy {
    /// How long a key is taken after its call, unless a setting says otherwise.
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The policy of a layer whose keys are taken for this `ttl`, which may be the default of the layer. With `shares_keys` all
    /// its endpoints share their keys.
    #[must_use]
    pub const fn of_layer(
        mut self,
        ttl: Duration,
        has_default_ttl: bool,
        shares_keys: bool,
    ) -> Self {
        self.ttl = ttl;
        self.set_in = SetIn::Layer { has_default_ttl };
        self.shares_keys = shares_keys;
        self
    }

    /// A policy with this `ttl` and every other setting at its default.
    pub const fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            set_in: SetIn::Attribute,
            release: Release::OnError,
            lease: None,
            at_least: None,
            renew: Renew::Yes,
            on_cancel: OnCancel::Keep,
            on_lease_lost: None,
            on_store_error: None,
            settle: Settle::Await,
            wait: None,
            replay: false,
            tx: false,
            give_back: false,
            fence: false,
            token: false,
            claims: Claims::Key,
            disabled: false,
            bypassed: false,
            shares_keys: false,
        }
    }

    /// Sets when the key becomes free.
    #[must_use]
    pub const fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Sets how long a claim is valid without a renewal. Only with [`Release::OnError`].
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Keeps the key taken for at least this long after the claim, also if the call ends sooner. At most the lease.
    #[must_use]
    pub const fn at_least(mut self, at_least: Duration) -> Self {
        self.at_least = Some(at_least);
        self
    }

    /// Sets how long the lease is renewed.
    #[must_use]
    pub const fn renew(mut self, renew: Renew) -> Self {
        self.renew = renew;
        self
    }

    /// Sets what happens to the key when the future is dropped.
    #[must_use]
    pub const fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.on_cancel = on_cancel;
        self
    }

    /// Sets what happens to the body when its lease is lost. The default depends on [`on_store_error`](Self::on_store_error).
    #[must_use]
    pub const fn on_lease_lost(mut self, on_lease_lost: OnLeaseLost) -> Self {
        self.on_lease_lost = Some(on_lease_lost);
        self
    }

    /// Sets what happens to the call when the store is unavailable.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = Some(on_store_error);
        self
    }

    /// Sets when a call returns, after its body has ended. Not with [`tx`](Self::tx).
    #[must_use]
    pub const fn settle(mut self, settle: Settle) -> Self {
        self.settle = settle;
        self
    }

    /// Sets how long a duplicate waits for the end of a running call.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Gives duplicates the stored result. Not with [`Release::Always`].
    #[must_use]
    pub const fn replay(mut self) -> Self {
        self.replay = true;
        self
    }

    /// Holds the key in the caller's transaction, without a lease. Not with [`Release::Always`].
    #[must_use]
    pub const fn tx(mut self) -> Self {
        self.tx = true;
        self
    }

    /// Notes that the call redeems a one-time token. Such a call is always guarded.
    #[must_use]
    pub const fn token(mut self) -> Self {
        self.token = true;
        self
    }

    /// Notes that the call has further keys. Only with [`Release::Always`].
    #[must_use]
    pub const fn also(mut self) -> Self {
        self.claims = Claims::Keys;
        self
    }

    /// Lets so many calls hold a key at once, 1 to 100. Only with [`Release::Always`].
    #[must_use]
    pub const fn permits(mut self, permits: u32) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a larger number is compared before"
        )]
        let permits = if permits > u8::MAX as u32 {
            u8::MAX
        } else {
            permits as u8
        };
        self.claims = Claims::Permit(permits);
        self
    }

    /// Makes the one-time token redeemable again if the body does not succeed.
    ///
    /// With [`OnCancel::Release`], also if the call is dropped: one token can then start the body any number of times.
    #[must_use]
    pub const fn give_back(mut self) -> Self {
        self.give_back = true;
        self
    }

    /// Gives each claim of a key a larger number than all its earlier claims. Not with [`tx`](Self::tx).
    #[must_use]
    pub const fn fence(mut self) -> Self {
        self.fence = true;
        self
    }
}

impl Policy {
    /// Whether the call claims its key. If not, its body runs without a guard.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.bypassed && !self.disabled
    }

    /// Whether the call draws the number of its fence although it claims no key.
    pub(crate) fn draws_unguarded(&self) -> bool {
        self.disabled && self.fence
    }

    /// What happens to the body when its lease is lost. If bodies start while the store is unavailable, running bodies
    /// continue by default.
    pub(crate) fn when_lost(&self) -> OnLeaseLost {
        self.on_lease_lost.unwrap_or(match self.on_store_error {
            Some(OnStoreError::Run) => OnLeaseLost::Continue,
            Some(OnStoreError::Refuse) | None => OnLeaseLost::Stop,
        })
    }

    /// Why options of this call contradict each other, if they do.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let never = self.release == Release::Never;
        let contradictions = [
            (
                self.token && self.tx,
                "`tx` does not go with a token, because the transaction may be rolled back after the token is used: redeem the token outside",
            ),
            (
                self.fence && self.tx,
                "`fence` does not go with `tx`, whose transaction orders the writes of its calls",
            ),
            (
                self.settle == Settle::Background && self.tx,
                "`settle = \"background\"` does not go with `tx`, whose transaction commits the end of the call with the work",
            ),
            (self.give_back && !self.token, "`give_back` needs a token"),
            (
                self.give_back && never,
                "`give_back` does not go with `release = false`, which keeps the key taken",
            ),
        ];
        let found = contradictions.into_iter().find(|(is_made, _)| *is_made);
        match found {
            Some((_, why)) => Some(why),
            None if self.claims == Claims::Key => None,
            None => self.contradiction_of_claims(),
        }
    }

    /// Whether the call writes nothing after the body. The record of the claim already marks the call as done, which is
    /// true as soon as the record is committed.
    pub(crate) fn is_done_at_once(&self) -> bool {
        self.tx && self.release == Release::OnError && !self.replay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_store_error_run_lets_a_body_continue_without_its_lease() {
        let (run, stop) = (OnStoreError::Run, OnLeaseLost::Stop);
        let policy = Policy::new(Duration::from_secs(10));
        assert_eq!(policy.when_lost(), stop);
        let running = policy.on_store_error(run);
        assert_eq!(running.when_lost(), OnLeaseLost::Continue);
        assert_eq!(running.on_lease_lost(stop).when_lost(), stop);
    }
}
