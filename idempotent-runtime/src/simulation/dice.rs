//! Random numbers that do not depend on the machine or on the version of a crate.

/// `SplitMix64`: small, fast, and good enough to choose what happens next.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// Makes dice. Equal seeds and purposes give equal numbers.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.rotate_left(32));
        dice.0 = dice.bits();
        dice
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `least` to `most`.
    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    /// True with this chance in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.bits() % 1000 < permille
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let any = usize::try_from(self.bits() >> 33).unwrap_or_default();
        from[any % from.len()]
    }
}
