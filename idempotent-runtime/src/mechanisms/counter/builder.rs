//! The settings of a counter.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Counter;
use crate::error::SetupError;
use crate::handle::Idempotency;
use crate::mechanisms::mistakes::Mistakes;
use crate::protocol::shared::Shared;

/// The settings of a [`Counter`], before it is built: [`Counter::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct CounterBuilder {
    shared: Arc<Shared>,
    name: Cow<'static, str>,
    limit: Option<u64>,
    window: Option<Duration>,
}

impl Idempotency {
    /// A counter that allows `limit` attempts at a thing in each `window`.
    ///
    /// Short for [`Counter::builder`] with these settings. Round trips: none.
    ///
    /// # Errors
    ///
    /// As [`build`](CounterBuilder::build).
    pub fn counter(
        &self,
        name: impl Into<Cow<'static, str>>,
        limit: u64,
        window: Duration,
    ) -> Result<Counter, SetupError> {
        Counter::builder(self, name)
            .limit(limit)
            .window(window)
            .build()
    }
}

impl Counter {
    /// Starts a counter. Its limit and its window are required.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use std::time::Duration;
    /// use idempotence::{Counter, Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let submits = Counter::builder(&idempotency, "pages.submit")
    ///     .limit(2)
    ///     .window(Duration::from_mins(10))
    ///     .build()?;
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    pub fn builder(
        idempotency: &Idempotency,
        name: impl Into<Cow<'static, str>>,
    ) -> CounterBuilder {
        CounterBuilder {
            shared: Arc::clone(idempotency.shared()),
            name: name.into(),
            limit: None,
            window: None,
        }
    }
}

impl CounterBuilder {
    /// Sets how many attempts at one thing a window allows. Required.
    pub fn limit(mut self, attempts: u64) -> Self {
        self.limit = Some(attempts);
        self
    }

    /// Sets how long a window lasts from its first attempt on. Required.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Checks the settings.
    ///
    /// Round trips: none.
    ///
    /// # Errors
    ///
    /// All mistakes at once: the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`; the limit or the window is missing; the limit is
    /// 0; the window is shorter than 1 ms.
    pub fn build(self) -> Result<Counter, SetupError> {
        let (endpoint, mut mistakes) = Mistakes::check_name("counter", self.name);
        let limit = mistakes.required("limit", self.limit);
        if limit == Some(0) {
            mistakes.add("`limit` must be at least 1, got 0");
        }
        let window = mistakes.required_duration("window", self.window);
        let settings = endpoint.zip(limit).zip(window);
        let ((endpoint, limit), window) = mistakes.finish(settings)?;
        Ok(Counter {
            shared: self.shared,
            endpoint,
            limit,
            window,
        })
    }
}
