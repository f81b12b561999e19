//! The record of a fence: one readable line, the same in all stores, and then the record of the claim that is open.
//!
//! ```text
//! idem1 F fence=1763717400000000 attempt=2 open
//! idem2 R Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242
//! ```
//!
//! The last word is `open`, or `takeover` if the claim before had not ended, or `ended` after the end of the claim; then
//! nothing follows the line. Nothing follows `takeover` either if the claim was withdrawn before its body: the call that died is
//! still the last that ran. `attempt` is the number of claims since the last success, without withdrawn claims. The Redis script
//! and the SQL statements read and write the same line.

use bytes::Bytes;

use crate::error::store::{StoreError, StoreErrorKind};

/// The record of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FenceLine<'a> {
    /// The number of the last claim.
    pub(crate) fence: i64,
    pub(crate) attempt: u32,
    pub(crate) state: FenceState<'a>,
}

/// The state of the last claim, with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceState<'a> {
    Open(&'a [u8]),
    /// It is open, and the claim before it had not ended.
    Takeover(&'a [u8]),
    Ended,
}

impl<'a> FenceLine<'a> {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If `stored` is not the record of a fence.
    pub(crate) fn read(stored: &'a [u8]) -> Result<Self, StoreError> {
        parse(stored).ok_or_else(foreign)
    }

    /// The line of the next claim, whose record is `claim`, at this time in microseconds since 1970.
    pub(crate) fn next<'b>(
        last: Option<FenceLine<'_>>,
        claim: &'b [u8],
        now: i64,
    ) -> FenceLine<'b> {
        let (fence, attempt) = last.map_or((0, 0), |last| (last.fence, last.attempt));
        FenceLine {
            fence: larger(fence, now),
            attempt: MOST_ATTEMPTS.min(attempt + 1),
            state: match last.and_then(|last| last.open_claim()) {
                Some(_) => FenceState::Takeover(claim),
                None => FenceState::Open(claim),
            },
        }
    }

    /// The line after a number was drawn for a call without a claim, at this time in microseconds since 1970.
    pub(crate) fn without_claim(last: Option<Self>, now: i64) -> Self {
        let last = last.unwrap_or(Self {
            fence: 0,
            attempt: 0,
            state: FenceState::Ended,
        });
        Self {
            fence: larger(last.fence, now),
            ..last
        }
    }

    /// The record of the last claim, unless it has ended.
    pub(crate) fn open_claim(&self) -> Option<&'a [u8]> {
        match self.state {
            FenceState::Open(claim) | FenceState::Takeover(claim) => Some(claim),
            FenceState::Ended => None,
        }
    }

    pub(crate) fn write(&self) -> Bytes {
        let Self { fence, attempt, .. } = self;
        let (word, claim): (_, &[u8]) = match self.state {
            FenceState::Open(claim) => ("open", claim),
            FenceState::Takeover(claim) => ("takeover", claim),
            FenceState::Ended => ("ended", b""),
        };
        let line = format!("{FENCE}{fence}{ATTEMPT}{attempt} {word}\n");
        [line.as_bytes(), claim].concat().into()
    }
}

/// The number after `last`: the time, if it is larger.
fn larger(last: i64, now: i64) -> i64 {
    now.clamp(last + 1, MOST.max(last + 1))
}

/// The error for bytes under the key that another program or a later version wrote.
pub fn foreign() -> StoreError {
    let what = "the bytes under the key are no fence of this version";
    StoreError::new(StoreErrorKind::Misconfigured, what)
        .reason("has other bytes under the key than a fence of this version")
        .foreign_record()
}

fn parse(stored: &[u8]) -> Option<FenceLine<'_>> {
    let end = stored.iter().position(|byte| *byte == b'\n')?;
    let (line, claim) = (str::from_utf8(&stored[..end]).ok()?, &stored[end + 1..]);
    let (fence, rest) = line.strip_prefix(FENCE)?.split_once(ATTEMPT)?;
    let (attempt, word) = rest.split_once(' ')?;
    // Accepts only the form that `write` writes: `parse` alone would also read `+3` and `03`.
    let is_plain = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'))
    };
    if !is_plain(fence) || !is_plain(attempt) {
        return None;
    }
    let (fence, attempt) = (fence.parse().ok()?, attempt.parse().ok()?);
    let state = match word {
        "open" => FenceState::Open(claim),
        "takeover" => FenceState::Takeover(claim),
        "ended" if claim.is_empty() => FenceState::Ended,
        _ => return None,
    };
    let is_valid = (1..MOST).contains(&fence) && attempt <= MOST_ATTEMPTS;
    is_valid.then_some(FenceLine {
        fence,
        attempt,
        state,
    })
}

const FENCE: &str = "idem1 F fence=";
const ATTEMPT: &str = " attempt=";
/// Microseconds since 1970 in the year 2255. Redis scripts count in floats, which are exact up to here.
const MOST: i64 = 9_000_000_000_000_000;
/// An attempt that reaches this number stays there.
const MOST_ATTEMPTS: u32 = 999_999_999;

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &[u8] = b"idem1 R owner=1\n\xff";

    /// The line after a success.
    fn ended(fence: i64) -> FenceLine<'static> {
        FenceLine {
            fence,
            attempt: 0,
            state: FenceState::Ended,
        }
    }

    #[test]
    fn the_line_is_frozen() {
        let first = FenceLine::next(None, CLAIM, 1_763_717_400_000_000);
        let line = b"idem1 F fence=1763717400000000 attempt=1 open\nidem1 R owner=1\n\xff";
        assert_eq!(first.write(), &line[..]);
        let ended = ended(first.fence);
        let line = "idem1 F fence=1763717400000000 attempt=0 ended\n";
        assert_eq!(ended.write(), line);
        let second = FenceLine::next(Some(first), b"claim", 1);
        let line = "idem1 F fence=1763717400000001 attempt=2 takeover\nclaim";
        assert_eq!(second.write(), line);
        for line in [first, second, ended] {
            assert_eq!(FenceLine::read(&line.write()).expect("a fence"), line);
        }
    }

    #[test]
    fn a_number_is_larger_than_the_last_and_not_before_the_clock() {
        let first = FenceLine::next(None, CLAIM, 100);
        assert_eq!((first.fence, first.attempt), (100, 1));
        for (now, fence) in [
            (5, 101),
            (100, 101),
            (101, 101),
            (200, 200),
            (i64::MIN, 101),
        ] {
            let next = FenceLine::next(Some(first), b"other", now);
            assert_eq!((next.fence, next.attempt), (fence, 2), "{now}");
            let ended = ended(first.fence);
            let after_success = FenceLine::next(Some(ended), b"other", now);
            let line = FenceLine {
                attempt: 1,
                state: FenceState::Open(b"other"),
                ..next
            };
            assert_eq!(after_success, line);
        }
        assert_eq!(FenceLine::next(None, CLAIM, -1).fence, 1);
        assert_eq!(FenceLine::next(None, CLAIM, i64::MAX).fence, MOST);
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        let good = "idem1 F fence=12 attempt=3 open\nclaim";
        assert!(FenceLine::read(good.as_bytes()).is_ok());
        for foreign in [
            "",
            "12",
            "idem1 F fence=12 attempt=3 open",
            "idem1 F fence=12 attempt=3 ended\nclaim",
            &good.replace("idem1", "idem2"),
            &good.replace("F ", "C "),
            &good.replace("=12", "=0"),
            &good.replace("=12", "=012"),
            &good.replace("=12", "=+12"),
            &good.replace("=12", "=-12"),
            &good.replace("=12", "=9000000000000000"),
            &good.replace("=12", "=99999999999999999999"),
            &good.replace("=3", "="),
            &good.replace("=3", "=03"),
            &good.replace("=3", "=1000000000"),
            &good.replace("open", "closed"),
            &good.replace("open", "open "),
        ] {
            let error = FenceLine::read(foreign.as_bytes()).expect_err(foreign);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        }
    }
}
