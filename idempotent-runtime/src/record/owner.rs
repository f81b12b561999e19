//! The owner of a record: the call that wrote it.

use crate::world;
use crate::world::Moment;

/// The id of the call that wrote a record: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(pub(super) u128);

impl Owner {
    pub(crate) fn random() -> Self {
        Self(world::random_bits())
    }

    /// As [`random`](Self::random), for a record that contains `moment`, and faster.
    pub(crate) fn at(moment: Moment) -> Self {
        Self(world::owner_bits(moment))
    }

    pub(crate) fn push_hex(self, line: &mut String) {
        let mut hex = [0; 32];
        // 32 digits are enough: an owner has 16 bytes, with two digits for each byte.
        line.push_str(
            base16ct::lower::encode_str(&self.0.to_be_bytes(), &mut hex).unwrap_or_default(),
        );
    }
}
