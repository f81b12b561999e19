//! The shape of a Bloom filter, and how full one is.

use std::fmt;

mod shape;

pub use self::shape::BloomFilter;
#[cfg(feature = "redis")]
pub(crate) use self::shape::float;
pub(crate) use self::shape::{ERROR_RATES, MOST_BITS, Shape};

/// How full a Bloom filter is.
///
/// As text it is a sentence, such as `10213 of 20000 members, and 0.02 % of the unseen are taken for seen`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BloomStats {
    /// How many members were marked within the last retention, estimated.
    pub members: u64,
    /// How many it is made for.
    pub capacity: u64,
    /// How often it now says of something unseen that it was perhaps seen, estimated.
    pub error_rate: f64,
}

impl BloomStats {
    /// Whether it holds as many members as it is made for: it takes more of the unseen for seen than it was set to, and
    /// saves fewer look-ups.
    pub fn is_full(&self) -> bool {
        self.members >= self.capacity
    }

    /// Makes one of the buckets that are there.
    pub(crate) fn of(filter: &BloomFilter, buckets: impl IntoIterator<Item = Bucket>) -> Self {
        let (mut members, mut unseen) = (0.0, 1.0);
        for bucket in buckets {
            // As much of the bucket as lies within the last retention, which is two buckets wide.
            members += bucket.members * (3.0 - bucket.age).clamp(0.0, 1.0);
            unseen *= 1.0 - bucket.error_rate;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate is rounded, and is not negative"
        )]
        Self {
            members: members.round() as u64,
            capacity: filter.capacity,
            error_rate: 1.0 - unseen,
        }
    }
}

impl fmt::Display for BloomStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} members, and {:.2} % of the unseen are taken for seen",
            self.members,
            self.capacity,
            self.error_rate * 100.0
        )
    }
}

/// One bucket of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    /// How long ago it began, in widths of a bucket.
    pub(crate) age: f64,
    /// How many members it holds, estimated.
    pub(crate) members: f64,
    /// How often it takes something unseen for seen.
    pub(crate) error_rate: f64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fill_counts_what_lies_within_the_retention() {
        let filter = BloomFilter {
            key: "filter".to_owned(),
            capacity: 1000,
            error_rate: 0.01,
            retention: Duration::from_secs(2),
        };
        let bucket = |age| Bucket {
            age,
            members: 400.0,
            error_rate: 0.1,
        };
        let fill = BloomStats::of(&filter, [0.25, 1.25, 2.25].map(bucket));
        assert_eq!((fill.members, fill.capacity), (1100, 1000));
        assert!(fill.is_full());
        assert!((fill.error_rate - 0.271).abs() < 1e-9, "{fill:?}");
        assert_eq!(
            fill.to_string(),
            "1100 of 1000 members, and 27.10 % of the unseen are taken for seen"
        );
        let fill = BloomStats::of(&filter, [1.5, 3.5].map(bucket));
        assert_eq!(fill.members, 400);
        assert!(!fill.is_full());
        assert_eq!(BloomStats::of(&filter, []).members, 0);
    }
}
