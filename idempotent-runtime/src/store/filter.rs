//! The shape of a Bloom filter, and how full one is.

use std::fmt;

mod shape;

pub use self::shape::{BloomFilter, Shape};
pub(crate) use self::shape::{ERROR_RATES, MOST_BITS};

/// How full a Bloom filter is.
///
/// [`Display`](fmt::Display) is, for example, `10213 of 20000 members, with 0.02 % false positives`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BloomStats {
    /// The estimated number of members within the last retention.
    pub members: u64,
    /// The number of members for which the filter is made.
    pub capacity: u64,
    /// The estimated share of unseen members for which the filter now answers `PerhapsSeen`.
    pub error_rate: f64,
}

impl BloomStats {
    /// Whether the filter has as many members as its capacity. A full filter has more false positives than its setting, and
    /// saves fewer look-ups.
    pub fn is_full(&self) -> bool {
        self.members >= self.capacity
    }

    /// The statistics of a filter with these buckets.
    pub(crate) fn new(filter: &BloomFilter, buckets: impl IntoIterator<Item = Bucket>) -> Self {
        let (mut members, mut unseen) = (0.0, 1.0);
        for bucket in buckets {
            // The part of the bucket within the last retention, which is two buckets wide.
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
            "{} of {} members, with {:.2} % false positives",
            self.members,
            self.capacity,
            self.error_rate * 100.0
        )
    }
}

/// One bucket of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// The time since its beginning, in widths of a bucket.
    pub age: f64,
    /// The estimated number of its members.
    pub members: f64,
    /// The share of unseen members for which the bucket answers that they were seen.
    pub error_rate: f64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stats_count_the_members_within_the_retention() {
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
        let stats = BloomStats::new(&filter, [0.25, 1.25, 2.25].map(bucket));
        assert_eq!((stats.members, stats.capacity), (1100, 1000));
        assert!(stats.is_full());
        assert!((stats.error_rate - 0.271).abs() < 1e-9, "{stats:?}");
        assert_eq!(
            stats.to_string(),
            "1100 of 1000 members, with 27.10 % false positives"
        );
        let stats = BloomStats::new(&filter, [1.5, 3.5].map(bucket));
        assert_eq!(stats.members, 400);
        assert!(!stats.is_full());
        assert_eq!(BloomStats::new(&filter, []).members, 0);
    }
}
