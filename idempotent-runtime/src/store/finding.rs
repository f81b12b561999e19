//! The findings of an examination of a store.

use std::fmt;

/// One finding, and what to do about it.
///
/// [`Display`](fmt::Display) is the finding, and after a colon what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    level: Level,
    found: String,
    advice: Option<String>,
    needed_by: Vec<Mechanism>,
}

/// The severity of a [`Finding`]; worse is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Correct.
    Fine,
    /// Good to know.
    Note,
    /// Calls work, but a further failure may lose records or refuse calls.
    Warning,
    /// Calls are refused, or two bodies may run for one key.
    Problem,
}

/// A mechanism that needs more of a store than guarded calls.
///
/// Tokens, counters, seen-sets and order numbers need the same operations as calls, so they are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// A [`Bloom`](crate::Bloom) filter.
    Bloom,
}

impl Finding {
    /// Makes a finding. The text is printed, so it must not contain a secret.
    pub fn new(level: Level, found: impl Into<String>) -> Self {
        Self {
            level,
            found: found.into(),
            advice: None,
            needed_by: Vec::new(),
        }
    }

    /// Adds the advice: what to do about the finding.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Limits the finding to these mechanisms: it affects only them.
    #[must_use]
    pub fn needed_by(mut self, mechanisms: impl IntoIterator<Item = Mechanism>) -> Self {
        self.needed_by.extend(mechanisms);
        self
    }

    /// The finding for users of these mechanisms: a problem if it concerns one of them, and nothing if it concerns only
    /// other mechanisms.
    pub(crate) fn for_users_of(mut self, used: &[Mechanism]) -> Option<Self> {
        if self.needed_by.is_empty() {
            return Some(self);
        }
        let concerns = self.needed_by.iter().any(|needs| used.contains(needs));
        self.level = Level::Problem;
        concerns.then_some(self)
    }

    /// Its severity.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The text of the finding.
    pub fn found(&self) -> &str {
        &self.found
    }

    /// The advice: what to do about the finding, if anything.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        match &self.advice {
            Some(advice) => write!(f, ": {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}
