//! Records that are longer than any handle reads.
//!
//! A script cuts what it gives. `SET … GET`, by which a key is claimed at the least cost to the server, gives all of what
//! stands there. So once a claim has met such a record, or was given up after a while without an answer, which may have been a
//! gigabyte, keys are claimed by the script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::store::longest::Longest;

/// What a store knows of such records. A clone shares it.
#[derive(Clone, Default)]
pub(super) struct Oversize {
    longest: Longest,
    met: Arc<AtomicBool>,
}

impl Oversize {
    pub(super) fn allow(&self, bytes: usize) {
        self.longest.allow(bytes);
    }

    /// Whether there are any, or may be.
    pub(super) fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// How many bytes of a record are read, as the scripts have it.
    pub(super) fn most(&self) -> String {
        let most = self.longest.to_read();
        most.map_or_else(|| "-1".to_owned(), |most| most.to_string())
    }

    /// As many of all the bytes that `SET … GET` gave.
    pub(super) fn cut(&self, standing: Vec<u8>) -> Bytes {
        match self.longest.to_read() {
            Some(most) if standing.len() >= most => {
                self.met.store(true, Ordering::Relaxed);
                Bytes::copy_from_slice(&standing[..most])
            }
            _ => standing.into(),
        }
    }

    /// Begins to wait for the answer to `SET … GET`.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let since = Some(Instant::now());
        Waiting {
            met: &self.met,
            since,
        }
    }
}

/// A claim that waits for its answer, or was given up.
pub(super) struct Waiting<'a> {
    met: &'a AtomicBool,
    since: Option<Instant>,
}

impl Waiting<'_> {
    pub(super) fn answered(mut self) {
        self.since = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= LONG) {
            self.met.store(true, Ordering::Relaxed);
        }
    }
}

/// Far longer than a small record takes, and shorter than the first try of a call.
const LONG: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_given_up_after_a_while_may_have_met_one() {
        let oversize = Oversize::default();
        drop(oversize.wait());
        let answered = oversize.wait();
        tokio::time::advance(LONG).await;
        answered.answered();
        assert!(!oversize.is_met());
        let given_up = oversize.wait();
        tokio::time::advance(LONG).await;
        drop(given_up);
        assert!(oversize.is_met());
    }

    #[test]
    fn what_is_no_longer_than_it_may_be_is_given_whole() {
        let oversize = Oversize::default();
        assert_eq!(oversize.most(), "-1");
        assert_eq!(oversize.cut(vec![7; 9]).len(), 9);
        oversize.clone().allow(5);
        assert_eq!(oversize.most(), "6");
        assert_eq!(oversize.cut(vec![7; 5]).len(), 5);
        assert!(!oversize.is_met());
        assert_eq!(oversize.cut(vec![7; 9]).len(), 6);
        assert!(oversize.is_met());
    }
}
