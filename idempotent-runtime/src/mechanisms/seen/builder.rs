//! The settings of a seen-set.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::SeenSet;
use super::member::Set;
use crate::error::SetupError;
use crate::handle::Idempotency;
use crate::key::kind::RecordKind;
use crate::mechanisms::mistakes::Mistakes;
use crate::protocol::shared::Shared;

/// The settings of a [`SeenSet`], before it is built: [`SeenSet::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct SeenSetBuilder {
    shared: Arc<Shared>,
    name: Cow<'static, str>,
    retention: Option<Duration>,
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
        }
    }
}

impl SeenSetBuilder {
    /// Sets the shortest time for which a member is remembered. Required.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Checks the settings.
    ///
    /// Round trips: none.
    ///
    /// # Errors
    ///
    /// All mistakes at once: the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`; the retention is missing or shorter than 1 ms.
    pub fn build(self) -> Result<SeenSet, SetupError> {
        let (endpoint, mut mistakes) = Mistakes::check_name("seen-set", self.name);
        let retention = mistakes.required_duration("retention", self.retention);
        let (endpoint, retention) = mistakes.finish(endpoint.zip(retention))?;
        Ok(SeenSet(Arc::new(Set {
            shared: self.shared,
            endpoint,
            retention,
            kind: RecordKind::Seen,
        })))
    }
}
