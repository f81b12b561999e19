//! What a drop leaves under the key.

use std::time::Duration;

use idempotent_runtime::Release;

use super::case::{Cancel, Case, End, Stage};
use crate::guarded::{Guarded, millis, secs};

pub(super) const TTL: Duration = secs(20);
pub(super) const LEASE: Duration = secs(5);
const GRACE_OF_LEASE: Duration = millis(500);
const GRACE_OF_TTL: Duration = secs(2);

/// What stands under a key, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Claim(Duration),
    Done(Duration),
}

impl Left {
    /// What stands there.
    pub(super) async fn by(guarded: &Guarded) -> Self {
        let Some(entry) = guarded.stands(1).await else {
            return Self::Nothing;
        };
        let lasts = entry.ttl.expect("it expires");
        if entry.value.starts_with(b"idem1 R ") {
            Self::Claim(lasts)
        } else {
            assert!(entry.value.starts_with(b"idem1 D "));
            Self::Done(lasts)
        }
    }

    /// What stands there later, if nothing else happens.
    pub(super) fn after(self, time: Duration) -> Self {
        let rest = |lasts: Duration| lasts.checked_sub(time).filter(|rest| !rest.is_zero());
        match self {
            Self::Nothing => Self::Nothing,
            Self::Claim(lasts) => rest(lasts).map_or(Self::Nothing, Self::Claim),
            Self::Done(lasts) => rest(lasts).map_or(Self::Nothing, Self::Done),
        }
    }

    pub(super) fn lasts(self) -> Option<Duration> {
        match self {
            Self::Nothing => None,
            Self::Claim(lasts) | Self::Done(lasts) => Some(lasts),
        }
    }
}

impl Case {
    /// What the table of `release` says of a call that was dropped, or ended, in this stage.
    pub(super) fn leaves(self, stage: Stage) -> Left {
        match (stage, self.cancel) {
            // The body never ran, or that is what was asked for.
            (Stage::Claiming, _) | (Stage::InTheBody, Cancel::Release) => Left::Nothing,
            // The outcome is unknown.
            (Stage::InTheBody, Cancel::Keep) => self.unknown(),
            // The outcome is known, or the body goes on until it is.
            (Stage::InTheBody, Cancel::Finish) | (Stage::AfterTheBody, _) => {
                self.leaves_by(self.end)
            }
        }
    }

    /// A column of the table.
    pub(super) fn leaves_by(self, end: End) -> Left {
        match (self.release, end) {
            (_, End::Panic) => self.unknown(),
            (Release::Always, _) | (Release::OnError, End::Err) => Left::Nothing,
            (Release::OnError, End::Ok) => Left::Done(TTL),
            // The end is marked for the sake of the result alone.
            (Release::Never, End::Ok) if self.replay => Left::Done(TTL + GRACE_OF_TTL),
            (Release::Never, _) => self.unknown(),
        }
    }

    fn unknown(self) -> Left {
        Left::Claim(match self.release {
            Release::OnError => LEASE + GRACE_OF_LEASE,
            Release::Always | Release::Never => TTL + GRACE_OF_TTL,
        })
    }
}
