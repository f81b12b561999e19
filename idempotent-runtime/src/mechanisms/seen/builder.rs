//! The settings of a seen-set.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::SeenSet;
use super::member::Set;
use crate::error::SetupError;
use crate::handle::Idempotency;
use crate::key::kind::Kind;
use crate::mechanisms::mistakes::Mistakes;
use crate::protocol::shared::Shared;

/// The settings of a [`SeenSet`], before it is built: [`SeenSet::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct SeenSetBuilder {
    shared: Arc<Shared>,
    name: Cow<'static, str>,
    retention: Option<Duration>,
    shards: u16,
}

impl Idempotency {
    /// A set that remembers each member for the `retention`. All sets with one name on one store are one set.
    ///
    /// Short for [`SeenSet::builder`] with this retention. Round trips: none.
    ///
    /// # Errors
    ///
    /// As [`build`](SeenSetBuilder::build).
    pub fn seen_set(
        &self,
        name: impl Into<Cow<'static, str>>,
        retention: Duration,
    ) -> Result<SeenSet, SetupError> {
        SeenSet::builder(self, name).retention(retention).build()
    }
}

impl SeenSet {
    /// Starts a seen-set. Its retention is required.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use std::time::Duration;
    /// use idempotence::{Idempotency, MemoryStore, SeenSet};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let seen = SeenSet::builder(&idempotency, "imports.sheet")
    ///     .retention(Duration::from_hours(24))
    ///     .shards(256)
    ///     .build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn builder(
        idempotency: &Idempotency,
        name: impl Into<Cow<'static, str>>,
    ) -> SeenSetBuilder {
        SeenSetBuilder {
            shared: Arc::clone(idempotency.shared()),
            name: name.into(),
            retention: None,
            shards: DEFAULT_SHARDS,
        }
    }
}

impl SeenSetBuilder {
    /// Sets the shortest time for which a member is remembered. Required.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets the number of parts of the set, from 1 to 4096. The fingerprint of a member decides its part. Default: 64.
    ///
    /// All processes that share the set must use the same number, or they do not see each other's members. On stores other than
    /// Redis the number changes only the names of keys.
    ///
    /// In a cluster the parts are on different nodes, which share the load. On any Redis, a hash of at most 512 members takes a
    /// third of the memory of a larger hash. A large hash also blocks the server when it expires: a hundred thousand members for
    /// about a tenth of a second, unless `lazyfree-lazy-expire` is `yes`. So use one part for each 1000 members of a
    /// retention. The default keeps the parts of a set of up to 60,000 members small.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }

    /// Checks the settings.
    ///
    /// Round trips: none.
    ///
    /// # Errors
    ///
    /// All mistakes at once: the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`; the retention is missing or shorter than 1 ms; there
    /// are no shards, or more than 4096.
    pub fn build(self) -> Result<SeenSet, SetupError> {
        let (endpoint, mut mistakes) = Mistakes::check_name("seen-set", self.name);
        let retention = mistakes.required_duration("retention", self.retention);
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            mistakes.add(format_args!(
                "`shards` must be between 1 and {MAX_SHARDS}, got {}",
                self.shards
            ));
        }
        let (endpoint, retention) = mistakes.finish(endpoint.zip(retention))?;
        Ok(SeenSet(Arc::new(Set {
            shared: self.shared,
            endpoint,
            retention,
            shards: self.shards,
            kind: Kind::Seen,
        })))
    }
}

/// Small sets then fit into small hashes, and the nodes of a cluster share large sets.
const DEFAULT_SHARDS: u16 = 64;
const MAX_SHARDS: u16 = 4096;
