//! A rule: what a convention says, which requests show it, and how their replies are judged.

use super::convention::Convention;
use super::scenario::Scenario;
use super::seen::Seen;

pub(crate) struct Rule {
    pub(crate) id: &'static str,
    /// Where it comes from. It holds only for these conventions.
    pub(crate) bases: &'static [Basis],
    /// What to change in a service that breaks it.
    pub(crate) advice: &'static str,
    pub(crate) sends: &'static Scenario,
    pub(crate) judge: fn(&Seen) -> Verdict,
}

/// A sentence of a convention.
pub(crate) struct Basis {
    pub(crate) convention: Convention,
    pub(crate) level: Level,
    pub(crate) sentence: &'static str,
}

/// How bad a broken rule is: as the sentence says, or `Must` if work is repeated or a secret leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Must,
    Should,
    May,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// What was found instead.
    Failed(String),
    /// Why it cannot be judged.
    Skipped(String),
}

/// A sentence of a convention, for the table of rules.
pub(crate) const fn basis(convention: Convention, level: Level, sentence: &'static str) -> Basis {
    Basis {
        convention,
        level,
        sentence,
    }
}

impl Rule {
    pub(crate) fn basis(&self, convention: Convention) -> Option<&Basis> {
        let mut bases = self.bases.iter();
        bases.find(|basis| basis.convention == convention)
    }
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
        }
    }
}

impl Verdict {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn skipped(text: impl Into<String>) -> Self {
        Self::Skipped(text.into())
    }

    /// Passed, or failed with this text.
    pub(crate) fn of(is_kept: bool, found: impl FnOnce() -> String) -> Self {
        if is_kept {
            Self::Passed
        } else {
            Self::Failed(found())
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed(text) | Self::Skipped(text) => text,
        }
    }
}

/// Whether the service did the work at most so often.
pub(crate) fn at_most(most: u64, seen: &Seen) -> Verdict {
    match seen.runs() {
        None => Verdict::skipped("needs --effect-url: the responses of two runs are equal"),
        Some(runs) => Verdict::of(runs <= most, || {
            format!("the work was done {runs} times, instead of {most}")
        }),
    }
}
