//! Records that are longer than any handle reads.
//!
//! A script cuts a long record. `SET … GET`, the cheapest claim for the server, returns the whole record. So keys are claimed
//! by the script after a claim has returned a long record, or was given up after a while, perhaps because of a very long
//! record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::port::redis::Longest;
use tokio::time::Instant;

/// Whether a store has found such records. Clones share this.
#[derive(Clone, Default)]
pub(crate) struct Oversize {
    longest: Longest,
    may_exist: Arc<AtomicBool>,
}

impl Oversize {
    pub(crate) fn allow(&self, bytes: usize) {
        self.longest.allow(bytes);
    }

    /// Whether a long record was found, or may exist.
    pub(crate) fn may_exist(&self) -> bool {
        self.may_exist.load(Ordering::Relaxed)
    }

    /// The number of bytes of a record that are read, as an argument of the scripts.
    pub(crate) fn limit(&self) -> String {
        let most = self.longest.to_read();
        most.map_or_else(|| "-1".to_owned(), |most| most.to_string())
    }

    /// Cuts a record from `SET … GET` to the same number of bytes.
    pub(crate) fn cut(&self, stored: Vec<u8>) -> Bytes {
        match self.longest.to_read() {
            Some(most) if stored.len() >= most => {
                self.may_exist.store(true, Ordering::Relaxed);
                Bytes::copy_from_slice(&stored[..most])
            }
            _ => stored.into(),
        }
    }

    /// Measures how long the answer to `SET … GET` takes, if the claim is sent at once.
    pub(crate) fn start_timer(&self, is_sent_at_once: bool) -> TimedClaim<'_> {
        let since = is_sent_at_once.then(Instant::now);
        TimedClaim {
            may_exist: &self.may_exist,
            since,
        }
    }
}

/// A claim without an answer yet. Dropping it after a while counts as a long record.
pub(crate) struct TimedClaim<'a> {
    may_exist: &'a AtomicBool,
    since: Option<Instant>,
}

impl TimedClaim<'_> {
    pub(crate) fn answered(mut self) {
        self.since = None;
    }
}

impl Drop for TimedClaim<'_> {
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= LONG) {
            self.may_exist.store(true, Ordering::Relaxed);
        }
    }
}

/// Much longer than the read of a small record, and shorter than the first attempt of a call.
const LONG: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_given_up_after_a_while_counts_as_oversize() {
        let oversize = Oversize::default();
        drop(oversize.start_timer(true));
        let answered = oversize.start_timer(true);
        tokio::time::advance(LONG).await;
        answered.answered();
        assert!(!oversize.may_exist());
        let given_up = oversize.start_timer(true);
        tokio::time::advance(LONG).await;
        drop(given_up);
        assert!(oversize.may_exist());
    }

    #[test]
    fn only_records_longer_than_allowed_are_cut() {
        let oversize = Oversize::default();
        assert_eq!(oversize.limit(), "-1");
        assert_eq!(oversize.cut(vec![7; 9]).len(), 9);
        oversize.clone().allow(5);
        assert_eq!(oversize.limit(), "6");
        assert_eq!(oversize.cut(vec![7; 5]).len(), 5);
        assert!(!oversize.may_exist());
        assert_eq!(oversize.cut(vec![7; 9]).len(), 6);
        assert!(oversize.may_exist());
    }
}
