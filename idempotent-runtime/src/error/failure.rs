//! What went wrong with a call, and where.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;

/// What went wrong, and where.
#[derive(Debug, Clone)]
pub struct Failure(pub(super) Box<Cause>);

#[derive(Debug, Clone)]
pub(super) struct Cause {
    pub(super) site: Site,
    what: Cow<'static, str>,
    pub(super) source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(
        site: Site,
        what: impl Into<Cow<'static, str>>,
        source: Option<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self(Box::new(Cause {
            site,
            what: what.into(),
            source: source.map(Arc::from),
        }))
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.site, self.0.what)
    }
}

/// An endpoint and the redacted key of one call of it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) endpoint: Endpoint,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Site {
    /// The site of a call that has no key (yet).
    pub(crate) fn without_key(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            fingerprint: None,
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}`", self.endpoint)?;
        match &self.fingerprint {
            Some(fingerprint) => write!(f, " with key {fingerprint:?}"),
            None => Ok(()),
        }
    }
}
