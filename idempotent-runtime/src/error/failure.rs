//! Why a call failed, and which call it was.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::store::StoreError;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;

/// Why a call failed, and which call it was.
#[derive(Debug, Clone)]
pub struct Failure(pub(super) Box<FailureParts>);

#[derive(Debug, Clone)]
pub(super) struct FailureParts {
    pub(super) site: Site,
    explanation: Explanation,
}

/// Why the call failed, and what to do.
#[derive(Debug, Clone)]
enum Explanation {
    /// In the words of `what`.
    Stated {
        what: Cow<'static, str>,
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// The store failed. `so` is the consequence, and `advice` is what to do.
    Store {
        so: &'static str,
        advice: &'static str,
        source: Arc<StoreError>,
    },
}

impl Failure {
    pub(crate) fn new(
        site: Site,
        what: impl Into<Cow<'static, str>>,
        source: Option<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let explanation = Explanation::Stated {
            what: what.into(),
            source: source.map(Arc::from),
        };
        Self(Box::new(FailureParts { site, explanation }))
    }

    /// The store failed: "the store {reason}, {so}; {advice}". The place of the store is only in the source.
    pub(super) fn store(
        site: Site,
        source: StoreError,
        so: &'static str,
        advice: &'static str,
    ) -> Self {
        let source = Arc::new(source);
        let explanation = Explanation::Store { so, advice, source };
        Self(Box::new(FailureParts { site, explanation }))
    }

    /// Attributes the failure to the call at `site`. If the store failed, `consequence` is the consequence for the call.
    pub(super) fn attribute_to(&mut self, site: &Site, consequence: &'static str) {
        self.0.site = site.clone();
        if let Explanation::Store { so, .. } = &mut self.0.explanation {
            *so = consequence;
        }
    }

    pub(super) fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.explanation {
            Explanation::Stated { source, .. } => source.as_deref().map(|source| source as _),
            Explanation::Store { source, .. } => Some(&**source),
        }
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.site)?;
        match &self.0.explanation {
            Explanation::Stated { what, .. } => f.write_str(what),
            Explanation::Store { so, advice, source } => {
                write!(f, "the store {}, {so}; {advice}", source.why())
            }
        }
    }
}

/// What an error or an event is about: a call or an operation, its name, and its redacted key.
#[derive(Debug, Clone)]
pub struct Site {
    pub(crate) subject: Subject,
    pub(crate) endpoint: Endpoint,
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Whether an error or an event is about a call, or about an operation of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`as_str` has the words of each")]
pub enum Subject {
    Call,
    Counter,
    Token,
    SeenSet,
    Bloom,
    #[cfg(feature = "order-numbers")]
    OrderNumbers,
    Peek,
    Forget,
}

impl Subject {
    /// The words before the name.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call of",
            Self::Counter => "counter",
            Self::Token => "token for",
            Self::SeenSet => "seen-set",
            Self::Bloom => "Bloom filter",
            #[cfg(feature = "order-numbers")]
            Self::OrderNumbers => "order numbers",
            Self::Peek => "peek of",
            Self::Forget => "forget of",
        }
    }
}

impl Site {
    /// The site of a call that has no key, or no key yet.
    pub fn without_key(endpoint: Endpoint) -> Self {
        Self::of(Subject::Call, endpoint)
    }

    /// The site of a call or an operation that has no key (yet).
    pub fn of(subject: Subject, endpoint: Endpoint) -> Self {
        Self {
            subject,
            endpoint,
            fingerprint: None,
        }
    }

    /// The same site with the key.
    pub(crate) fn with_key(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.subject.as_str(), self.endpoint)?;
        match &self.fingerprint {
            Some(fingerprint) => write!(f, " with key {fingerprint:?}"),
            None => Ok(()),
        }
    }
}
