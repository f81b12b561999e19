//! A Bloom filter, the size of its buckets, and the bits of a member.

use std::time::Duration;

use md5::{Digest as _, Md5};

/// A Bloom filter of a store: its key and its size.
///
/// It consists of time buckets, each half a retention wide: the current bucket and the two before it.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomFilter {
    /// The prefix of its keys. The part in braces keeps them on one node of a cluster.
    pub key: String,
    /// The number of members within a retention for which the filter is made.
    pub capacity: u64,
    /// The accepted share of false positives, between 0 and 1.
    pub error_rate: f64,
    /// The shortest time for which a member is remembered.
    pub retention: Duration,
}

/// The size of one bucket of a filter.
///
/// Each bucket is made for as many members as the whole filter, with half of its error rate. So the filter has its error rate
/// at any distribution of the members over time: three consecutive buckets have the members of at most two retentions, and at
/// worst the first and the last bucket have all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The number of bits in a bucket.
    pub bits: u64,
    /// The number of bits of a member.
    pub hashes: u32,
}

/// The size of the longest string in Redis: 512 MB.
pub(crate) const MOST_BITS: f64 = 4_294_967_296.0;

/// The allowed error rates, with which a member has 2 to 31 bits.
pub(crate) const ERROR_RATES: std::ops::RangeInclusive<f64> = 1e-9..=0.5;

impl Shape {
    /// The shape of a filter. Impossible settings are clamped to the nearest possible settings.
    pub fn for_filter(filter: &BloomFilter) -> Self {
        // `max` comes first: it turns NaN into a number.
        let error_rate = filter.error_rate.max(*ERROR_RATES.start());
        let error_rate = error_rate.min(*ERROR_RATES.end());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "both are positive and rounded, and the first is clamped"
        )]
        let (bits, hashes) = (
            Self::bits(filter.capacity, error_rate).clamp(1.0, MOST_BITS) as u64,
            (-(error_rate / 2.0).log2()).round() as u32,
        );
        // Rounded to whole words, because machines differ in the last digit of a logarithm.
        let bits = bits.next_multiple_of(64);
        Self { bits, hashes }
    }

    /// The number of bits that a bucket with these settings needs; it may exceed `MOST_BITS`.
    pub fn bits(capacity: u64, error_rate: f64) -> f64 {
        let ln_2 = std::f64::consts::LN_2;
        (float(capacity) * -(error_rate / 2.0).ln() / (ln_2 * ln_2)).ceil()
    }

    /// The bits of a member. Frozen: old and new processes share filters during a deploy.
    ///
    /// Enhanced double hashing: two hashes are enough for any number of bits.
    pub fn positions(self, member: &[u8]) -> impl Iterator<Item = u64> + Clone {
        let digest = u128::from_le_bytes(Md5::digest(member).into());
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a digest")]
        let (mut at, mut step) = (digest as u64, (digest >> 64) as u64);
        (0..self.hashes).map(move |number| {
            let position = at % self.bits;
            at = at.wrapping_add(step);
            step = step.wrapping_add(u64::from(number));
            position
        })
    }

    /// The estimated number of members in a bucket with this many set bits.
    pub fn members(self, set: u64) -> f64 {
        // If all bits are set, any number of members is possible: the estimate for one bit less is the largest.
        let set = float(set.min(self.bits - 1)) / float(self.bits);
        -(float(self.bits) / f64::from(self.hashes)) * (-set).ln_1p()
    }

    /// The share of false positives of a bucket with this many set bits.
    pub fn error_rate(self, set: u64) -> f64 {
        (float(set) / float(self.bits)).powf(f64::from(self.hashes))
    }
}

/// A number of members or bits, for an estimate.
#[expect(clippy::cast_precision_loss, reason = "an estimate is precise enough")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shape(capacity: u64, error_rate: f64) -> Shape {
        Shape::for_filter(&BloomFilter {
            key: String::new(),
            capacity,
            error_rate,
            retention: Duration::from_secs(1),
        })
    }

    #[test]
    fn a_bucket_has_the_bits_that_its_error_rate_needs() {
        // 11.03 bits a member for 0.5 %, which is half of 1 %.
        for (capacity, error_rate, bits, hashes) in [
            (1_000_000, 0.01, 11_027_776, 8),
            (1_000_000, 0.001, 15_820_288, 11),
            (1_000_000, 0.5, 2_885_440, 2),
            (1, 1e-9, 64, 31),
            // Impossible settings are clamped.
            (u64::MAX, 0.01, 1 << 32, 8),
            (0, 0.01, 64, 8),
            (1, f64::NAN, 64, 31),
            (1, 7.0, 64, 2),
            (1, -1.0, 64, 31),
        ] {
            let expected = Shape { bits, hashes };
            assert_eq!(
                shape(capacity, error_rate),
                expected,
                "{capacity} {error_rate}"
            );
        }
    }

    #[test]
    fn the_positions_of_a_member_never_change() {
        let positions: Vec<_> = shape(1_000_000, 0.01).positions(b"member").collect();
        // Calculated by another program.
        let expected = [
            10_678_442, 2_636_656, 4_823_606, 7_809_597, 10_795_590, 1_954_770, 4_940_770,
            7_127_735,
        ];
        assert_eq!(positions, expected);
    }

    #[test]
    fn positions_are_spread_over_all_bits() {
        let shape = shape(1000, 0.01);
        let mut set = HashSet::new();
        for member in 0..1000_u32 {
            set.extend(shape.positions(&member.to_le_bytes()));
        }
        assert!(set.iter().all(|position| *position < shape.bits));
        let set = set.len() as u64;
        let members = shape.members(set);
        assert!((950.0..1050.0).contains(&members), "{members}");
        let error_rate = shape.error_rate(set);
        assert!((0.004..0.006).contains(&error_rate), "{error_rate}");
    }

    #[test]
    fn a_bucket_with_all_bits_set_has_a_finite_estimate() {
        let shape = shape(1000, 0.01);
        assert!(shape.members(shape.bits).is_finite());
        assert!(shape.members(shape.bits) > 5000.0);
        assert!((shape.error_rate(shape.bits) - 1.0).abs() < 1e-9);
        assert!(shape.members(0).abs() < 1e-9);
    }
}
