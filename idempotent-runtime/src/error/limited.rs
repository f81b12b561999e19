//! An attempt beyond the limit of a counter.

use std::fmt;
use std::time::Duration;

use super::failure::Site;
use crate::policy::duration::Rough;

/// An attempt beyond the limit of a [`Counter`](crate::Counter).
#[derive(Debug, Clone)]
pub struct Limited(pub(super) Box<Beyond>);

#[derive(Debug, Clone)]
pub(super) struct Beyond {
    pub(super) site: Site,
    pub(super) attempt: u64,
    pub(super) limit: u64,
    pub(super) retry_after: Duration,
}

impl Limited {
    pub(crate) fn new(site: Site, attempt: u64, limit: u64, retry_after: Duration) -> Self {
        Self(Box::new(Beyond {
            site,
            attempt,
            limit,
            retry_after,
        }))
    }

    /// The name of the counter.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }

    /// The number of this attempt in the window, counted from 1: always more than [`limit`](Self::limit).
    pub fn attempt(&self) -> u64 {
        self.0.attempt
    }

    /// How many attempts a window allows.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// When the window ends, counted from now, by the clock of the store.
    pub fn retry_after(&self) -> Duration {
        self.0.retry_after
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Beyond {
            site,
            attempt,
            limit,
            retry_after,
        } = &*self.0;
        write!(
            f,
            "{site}: refused because this is attempt {attempt} and the limit is {limit}; \
             try again in {}, when the window ends",
            Rough(*retry_after)
        )
    }
}
