//! Who wrote a record.

use crate::world;

/// 128 random bits that one call made for itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(pub(super) u128);

impl Owner {
    pub(crate) fn random() -> Self {
        Self(world::random_bits())
    }

    pub(crate) fn push_hex(self, line: &mut String) {
        let mut hex = [0; 32];
        // Two digits a byte, and 16 bytes: it fits.
        line.push_str(
            base16ct::lower::encode_str(&self.0.to_be_bytes(), &mut hex).unwrap_or_default(),
        );
    }
}
