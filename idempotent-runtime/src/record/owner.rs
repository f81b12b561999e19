//! The owner of a record: the call that wrote it.

use crate::key::hex;
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

    pub(super) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The hexadecimal digits of the id.
    pub(crate) fn hex(self) -> [u8; 32] {
        hex::sixteen(self.bytes())
    }
}
