//! The record of a token: one readable line.
//!
//! ```text
//! idem1 T fresh
//! idem1 T used owner=0f1e…
//! idem1 T returned owner=0f1e…
//! ```
//!
//! A token begins as `fresh`. A redemption replaces the line with `used` and a new owner. Only the same redemption writes
//! `returned`, which can be redeemed like `fresh`: it replaces its own `used` line or, if no caller waits for the redemption
//! any more, the line that the redemption expected. So no line is ever stored twice under one key, and a delayed command never
//! finds the line that it expects.

use bytes::Bytes;

use crate::record::owner::Owner;

/// The record of a token that is not redeemed yet.
pub(crate) const FRESH: Bytes = Bytes::from_static(b"idem1 T fresh");

/// Writes the record of a token that `owner` has redeemed.
pub(crate) fn used(owner: Owner) -> Bytes {
    write(USED, owner)
}

/// Writes the record of a token that `owner` has returned.
pub(crate) fn returned(owner: Owner) -> Bytes {
    write(RETURNED, owner)
}

/// The state of a token, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenState {
    /// The token may be redeemed.
    Free,
    Used,
}

/// Reads a record; `None` if another version or another program wrote it.
pub(crate) fn read(record: &Bytes) -> Option<TokenState> {
    if *record == FRESH {
        return Some(TokenState::Free);
    }
    let is_owner = |digits: &[u8]| {
        digits.len() == 32 && (digits.iter()).all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let by_owner = |line: &str| record.strip_prefix(line.as_bytes()).is_some_and(is_owner);
    if by_owner(USED) {
        Some(TokenState::Used)
    } else {
        by_owner(RETURNED).then_some(TokenState::Free)
    }
}

fn write(line: &str, owner: Owner) -> Bytes {
    Bytes::from([line.as_bytes(), &owner.hex()].concat())
}

const USED: &str = "idem1 T used owner=";
const RETURNED: &str = "idem1 T returned owner=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_frozen() {
        let owner = Owner::random();
        let digits = String::from_utf8(owner.hex().to_vec()).unwrap();
        assert_eq!(FRESH, "idem1 T fresh");
        assert_eq!(used(owner), format!("idem1 T used owner={digits}"));
        assert_eq!(returned(owner), format!("idem1 T returned owner={digits}"));
    }

    #[test]
    fn a_written_record_is_read() {
        let owner = Owner::random();
        assert_eq!(read(&FRESH), Some(TokenState::Free));
        assert_eq!(read(&used(owner)), Some(TokenState::Used));
        assert_eq!(read(&returned(owner)), Some(TokenState::Free));
    }

    #[test]
    fn foreign_bytes_are_not_a_record() {
        let used = String::from_utf8(used(Owner::random()).to_vec()).unwrap();
        for foreign in [
            "",
            "1",
            "idem1 T",
            "idem1 T fresh ",
            "idem1 T fresh\n",
            "idem2 T fresh",
            "idem1 R fresh",
            "idem1 T used owner=",
            &used[..used.len() - 1],
            &format!("{used}0"),
            &format!("{used}\n"),
            &used.to_uppercase(),
            &used.replace("used", "lost"),
            &used.replace("owner", "by"),
            &format!("idem1 T used owner={}", "x".repeat(32)),
        ] {
            let foreign = Bytes::copy_from_slice(foreign.as_bytes());
            assert_eq!(read(&foreign), None, "{foreign:?}");
        }
        assert_eq!(read(&Bytes::from_static(&[0xff; 51])), None);
    }
}
