//! The record that a dropped call leaves in the store.

use std::time::Duration;

use idempotent_runtime::Release;

use super::case::{Cancel, Case, End, Stage};
use crate::protocol::guarded::{Guarded, millis, secs};

pub(super) const TTL: Duration = secs(20);
pub(super) const LEASE: Duration = secs(5);
const GRACE_OF_LEASE: Duration = millis(500);
const GRACE_OF_TTL: Duration = secs(2);

/// The record under a key and its remaining time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftover {
    Nothing,
    Claim(Duration),
    Done(Duration),
}

impl Leftover {
    /// The claim of a call whose outcome is unknown: it stays until its lease ends.
    pub(super) const LEASED: Self = Self::Claim(LEASE.saturating_add(GRACE_OF_LEASE));

    /// Reads the record.
    pub(super) async fn read(guarded: &Guarded) -> Self {
        Self::under(guarded, &guarded.key(1)).await
    }

    /// Reads the record under this key.
    pub(super) async fn under(guarded: &Guarded, key: &str) -> Self {
        let Some(entry) = guarded.store.get(key).await.unwrap() else {
            return Self::Nothing;
        };
        let remaining = entry.ttl.expect("every record expires");
        if entry.value.starts_with(b"idem2 R ") {
            Self::Claim(remaining)
        } else {
            assert!(entry.value.starts_with(b"idem2 D "));
            Self::Done(remaining)
        }
    }

    /// The record after `time`, if no operation changes it.
    pub(super) fn after(self, time: Duration) -> Self {
        let rest = |remaining: Duration| remaining.checked_sub(time).filter(|rest| !rest.is_zero());
        match self {
            Self::Nothing => Self::Nothing,
            Self::Claim(remaining) => rest(remaining).map_or(Self::Nothing, Self::Claim),
            Self::Done(remaining) => rest(remaining).map_or(Self::Nothing, Self::Done),
        }
    }

    pub(super) fn remaining(self) -> Option<Duration> {
        match self {
            Self::Nothing => None,
            Self::Claim(remaining) | Self::Done(remaining) => Some(remaining),
        }
    }
}

impl Case {
    /// The record that a call leaves after it was dropped, or ended, in this stage: the table of `release`.
    pub(super) fn leaves(self, stage: Stage) -> Leftover {
        match (stage, self.cancel) {
            // The body never ran, or `on_cancel` releases the key.
            (Stage::Claiming, _) | (Stage::InTheBody, Cancel::Release) => Leftover::Nothing,
            // The outcome is unknown.
            (Stage::InTheBody, Cancel::Keep) => self.unknown(),
            // The outcome is known, or the body continues to its end.
            (Stage::InTheBody, Cancel::Finish) | (Stage::AfterTheBody, _) => {
                self.leaves_by(self.end)
            }
        }
    }

    /// Whether the fence of a call that was dropped, or ended, in this stage is open: the next call takes over from it.
    pub(super) fn leaves_open_fence(self, stage: Stage) -> bool {
        let is_unknown = match (stage, self.cancel) {
            (Stage::Claiming, _) => false,
            (Stage::InTheBody, Cancel::Keep | Cancel::Release) => true,
            (Stage::InTheBody, Cancel::Finish) | (Stage::AfterTheBody, _) => self.end == End::Panic,
        };
        self.fence && is_unknown
    }

    /// The record after this end of the body: a column of the table.
    pub(super) fn leaves_by(self, end: End) -> Leftover {
        match (self.release, end) {
            (_, End::Panic) => self.unknown(),
            (Release::Always, _) | (Release::OnError, End::Err) => Leftover::Nothing,
            (Release::OnError, End::Ok) => Leftover::Done(TTL),
            // With `release = false` a done record is stored only for its result.
            (Release::Never, End::Ok) if self.replay => Leftover::Done(TTL + GRACE_OF_TTL),
            (Release::Never, _) => self.unknown(),
        }
    }

    fn unknown(self) -> Leftover {
        match self.release {
            Release::OnError => Leftover::LEASED,
            Release::Always | Release::Never => Leftover::Claim(TTL + GRACE_OF_TTL),
        }
    }
}
