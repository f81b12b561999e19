//! What an examination of a store finds.

use std::fmt;

/// One thing that was found, and what to do about it.
///
/// [`Display`](fmt::Display) is `found`, and after a colon what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    level: Level,
    found: String,
    advice: Option<String>,
    needed_by: Vec<Mechanism>,
}

/// How bad a [`Finding`] is. The worse one is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As it should be.
    Fine,
    /// Good to know.
    Note,
    /// Calls work, and records may be lost, or calls refused, when something else goes wrong.
    Warning,
    /// Calls are refused, or two bodies of one key may run.
    Problem,
}

/// What needs more of a store than guarded calls do.
///
/// Tokens, counters and order numbers are not here: they need what calls need. (Order numbers ask a seen-set for a
/// hint, and do without.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// A [`SeenSet`](crate::SeenSet).
    SeenSets,
    /// A [`Bloom`](crate::Bloom) filter.
    Bloom,
}

impl Finding {
    /// Something that was found. The text holds no secret: it is printed.
    pub fn new(level: Level, found: impl Into<String>) -> Self {
        Self {
            level,
            found: found.into(),
            advice: None,
            needed_by: Vec::new(),
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Says that only these do not work because of it.
    #[must_use]
    pub fn needed_by(mut self, mechanisms: impl IntoIterator<Item = Mechanism>) -> Self {
        self.needed_by.extend(mechanisms);
        self
    }

    /// The finding for one who uses these: a problem if one of them does not work because of it, and nothing if it concerns
    /// others only.
    pub(crate) fn for_users_of(mut self, used: &[Mechanism]) -> Option<Self> {
        if self.needed_by.is_empty() {
            return Some(self);
        }
        let concerns = self.needed_by.iter().any(|needs| used.contains(needs));
        self.level = Level::Problem;
        concerns.then_some(self)
    }

    /// How bad it is.
    pub fn level(&self) -> Level {
        self.level
    }

    /// What was found.
    pub fn found(&self) -> &str {
        &self.found
    }

    /// What to do about it, if anything.
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
