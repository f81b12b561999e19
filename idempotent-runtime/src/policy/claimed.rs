//! What follows from what a call claims.

use super::claims::{Claims, MOST_PERMITS};
use super::{Policy, Release, Settle};

impl Policy {
    /// Whether the call claims its key and nothing else, or nothing.
    pub(crate) fn has_one_key(&self) -> bool {
        self.claims == Claims::Key || !self.is_guarded()
    }

    /// Whether the call claims several keys.
    pub(crate) fn has_several_keys(&self) -> bool {
        self.claims == Claims::Keys && self.is_guarded()
    }

    /// How many calls may hold the key at once, if the call has the option `permits`.
    pub(crate) fn most_holders(&self) -> Option<u8> {
        match self.claims {
            Claims::Permit(permits) => Some(permits),
            Claims::Key | Claims::Keys => None,
        }
    }

    /// Why further keys or permits contradict other options, if they do.
    pub(super) fn contradiction_of_claims(&self) -> Option<&'static str> {
        let holds = self.release != Release::Always;
        let of_keys = [
            (
                holds,
                "further keys need `release = true`: nothing is stored under them after the call",
            ),
            (
                self.tx,
                "further keys do not go with `tx`: lock the rows of the transaction instead",
            ),
            (self.token, "further keys do not go with a token"),
            (
                self.fence,
                "further keys do not go with `fence`: they have no numbers",
            ),
        ];
        let is_no_number = self
            .most_holders()
            .is_some_and(|permits| !(1..=MOST_PERMITS).contains(&permits));
        let of_permits = [
            (is_no_number, "`permits` must be between 1 and 100"),
            (
                self.tx,
                "`permits` does not go with `tx`, whose transaction holds the key alone",
            ),
            (
                holds,
                "`permits` needs `release = true`: with other values a key has one run",
            ),
            (
                self.token,
                "`permits` does not go with a token, which is redeemed for one run",
            ),
            (
                self.fence,
                "`permits` does not go with `fence`, which orders the writes of one holder after another",
            ),
            (
                self.settle == Settle::Background,
                "`permits` does not go with `settle = \"background\"`: the next call would meet the permit of a call that has returned",
            ),
        ];
        let contradictions: &[_] = match self.claims {
            Claims::Key => &[],
            Claims::Keys => &of_keys,
            Claims::Permit(_) => &of_permits,
        };
        let found = contradictions.iter().find(|(is_made, _)| *is_made);
        found.map(|(_, why)| *why)
    }
}
