//! What the end of a call sends to the store.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::protocol::background;
use crate::protocol::ending::Ending;
use crate::protocol::fence;
use crate::protocol::lease::Lease;
use crate::protocol::retry::StoreFuture;
use crate::store::{StoreError, Swap};

impl Ending {
    /// Sends the end to a store that answers without waiting. Returns `None` if the store does not, or if a token is given back or
    /// a fence is ended first.
    pub(crate) fn send_now(&self, lease: &Lease) -> Option<Result<Swap, StoreError>> {
        let store = lease.call().shared.store().local()?;
        if matches!(self, Self::EndFence(_)) || fence::ends_before(lease, self) {
            return None;
        }
        let token = lease.call().token.as_ref();
        if token.is_some_and(|token| token.must_give_back()) {
            return None;
        }
        let (key, claim, now) = (lease.key(), lease.record(), Instant::now());
        Some(match self.replacement(lease) {
            Some((value, ttl)) => store.replace_now(key, claim, value, ttl, now),
            None => store.remove_now(key, claim, now),
        })
    }

    pub(crate) fn send<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Swap> {
        match &lease.call().token {
            // The token is given back before the key is free, because the next call with this token must be able to redeem it.
            Some(token) if token.must_give_back() => Box::pin(async {
                if mutation!(FreesKeyFirst) {
                    let swap = self.send_without_token(lease).await?;
                    return token.give_back().await.map(|()| swap);
                }
                token.give_back().await?;
                self.send_without_token(lease).await
            }),
            _ => self.send_without_token(lease),
        }
    }

    /// Does the same as [`send`](Self::send). No caller waits for most withdrawals, so they take turns.
    pub(crate) fn send_in_turn<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Swap> {
        if let Self::Withdraw = self {
            return background::in_turn(&lease.call().shared, self.send(lease));
        }
        self.send(lease)
    }

    fn send_without_token<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Swap> {
        if let Self::EndFence(_) = self {
            return Box::pin(fence::write_end(lease));
        }
        if fence::ends_before(lease, self) {
            return Box::pin(fence::end_and_remove(lease, || self.send_alone(lease)));
        }
        self.send_alone(lease)
    }

    fn send_alone<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Swap> {
        let store = lease.call().shared.store();
        let (key, claim) = (lease.key(), lease.record());
        // Only calls with `wait` subscribe to changes.
        let listens = lease.call().policy.longest_wait().is_some();
        let notifies = listens && !matches!(self, Self::SetExpiry(_));
        match self.replacement(lease) {
            Some((value, ttl)) if notifies => store.replace_and_notify(key, claim, value, ttl),
            Some((value, ttl)) => store.replace(key, claim, value, ttl),
            None if notifies => store.remove_and_notify(key, claim),
            None => store.remove(key, claim),
        }
    }

    /// What replaces the claim, and its time to live. `None` if the claim is removed.
    fn replacement<'a>(&'a self, lease: &'a Lease) -> Option<(&'a Bytes, Duration)> {
        match self {
            Self::Remove | Self::Withdraw | Self::EndFence(_) => None,
            Self::Complete(done) | Self::Tombstone(done) => Some((done, lease.end_ttl(done))),
            Self::SetExpiry(until) => {
                let remaining = until.duration_since(Instant::now());
                (!remaining.is_zero()).then_some((lease.record(), remaining))
            }
        }
    }
}
