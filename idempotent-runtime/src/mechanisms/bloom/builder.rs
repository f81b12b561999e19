//! The settings of a Bloom filter.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Bloom;
use crate::error::SetupError;
use crate::handle::Idempotency;
use crate::key::kind::RecordKind;
use crate::mechanisms::mistakes::Mistakes;
use crate::protocol::shared::Shared;
use crate::store::{BloomFilter, ERROR_RATES, MOST_BITS, Shape};

/// The settings of a [`Bloom`] filter, before it is built: [`Bloom::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct BloomBuilder {
    shared: Arc<Shared>,
    name: Cow<'static, str>,
    capacity: Option<u64>,
    error_rate: f64,
    retention: Option<Duration>,
}

impl Idempotency {
    /// A Bloom filter for `capacity` members within the `retention`. At most the share `error_rate` of the unseen members gets
    /// [`PerhapsSeen`](crate::Hint::PerhapsSeen): 0.01 is 1 %.
    ///
    /// Short for [`Bloom::builder`] with these settings. Round trips: none.
    ///
    /// # Errors
    ///
    /// As [`build`](BloomBuilder::build).
    pub fn bloom(
        &self,
        name: impl Into<Cow<'static, str>>,
        capacity: u64,
        error_rate: f64,
        retention: Duration,
    ) -> Result<Bloom, SetupError> {
        Bloom::builder(self, name)
            .capacity(capacity)
            .error_rate(error_rate)
            .retention(retention)
            .build()
    }
}

impl Bloom {
    /// Starts a Bloom filter. Its capacity and its retention are required.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use std::time::Duration;
    /// use idempotence::{Bloom, Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let bloom = Bloom::builder(&idempotency, "orders.no")
    ///     .capacity(100_000)
    ///     .error_rate(0.001)
    ///     .retention(Duration::from_hours(24))
    ///     .build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn builder(idempotency: &Idempotency, name: impl Into<Cow<'static, str>>) -> BloomBuilder {
        BloomBuilder {
            shared: Arc::clone(idempotency.shared()),
            name: name.into(),
            capacity: None,
            error_rate: 0.01,
            retention: None,
        }
    }
}

impl BloomBuilder {
    /// Sets how many members are marked within the retention. Required.
    pub fn capacity(mut self, members: u64) -> Self {
        self.capacity = Some(members);
        self
    }

    /// Sets which share of the unseen members may get [`PerhapsSeen`](crate::Hint::PerhapsSeen), from 10⁻⁹ to 0.5. Default:
    /// 0.01, which is 1 %.
    pub fn error_rate(mut self, error_rate: f64) -> Self {
        self.error_rate = error_rate;
        self
    }

    /// Sets the shortest time for which a member is remembered. Required.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Checks the settings. The store has no filter before the first mark.
    ///
    /// Round trips: none.
    ///
    /// # Errors
    ///
    /// All mistakes at once: the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`; the capacity or the retention is missing or
    /// zero; the error rate is not between 10⁻⁹ and 0.5; a bucket needs more than 2³² bits, the longest string of Redis. With
    /// an error rate of 1 % that is a capacity of 389 million.
    pub fn build(self) -> Result<Bloom, SetupError> {
        let (endpoint, mut mistakes) = Mistakes::check_name("Bloom filter", self.name);
        let capacity = mistakes.required("capacity", self.capacity);
        let retention = mistakes.required("retention", self.retention);
        let error_rate = self.error_rate;
        if capacity == Some(0) {
            mistakes.add("`capacity` must be at least 1, got 0");
        }
        if retention == Some(Duration::ZERO) {
            mistakes.add("`retention` must be more than zero, got 0s");
        }
        if !ERROR_RATES.contains(&error_rate) {
            mistakes.add(format_args!(
                "`error_rate` must be between 1e-9 and 0.5, got {error_rate}"
            ));
        } else if let Some(capacity) = capacity
            && Shape::bits(capacity, error_rate) > MOST_BITS
        {
            mistakes.add(format_args!(
                "`capacity` {capacity} with `error_rate` {error_rate} needs {:.0} bits, and the limit is 2^32 (512 MB), the \
                 longest string of Redis: lower the capacity, raise the error rate, or use several filters",
                Shape::bits(capacity, error_rate)
            ));
        }
        let settings = endpoint.zip(capacity).zip(retention);
        let ((endpoint, capacity), retention) = mistakes.finish(settings)?;
        // The braces keep all buckets on one node of a cluster.
        let key = self
            .shared
            .key_of(RecordKind::Bloom, format_args!("{{{endpoint}}}"));
        Ok(Bloom {
            shared: self.shared,
            endpoint,
            filter: BloomFilter {
                key,
                capacity,
                error_rate,
                retention,
            },
        })
    }
}
