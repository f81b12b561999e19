//! What was found, for people and for programs.

use serde::Serialize;

use super::convention::Convention;
use super::rule::{Basis, Level, Rule, Verdict};
use crate::exit::Failure;
use crate::output::Output;

pub(crate) struct Report {
    pub(crate) url: String,
    pub(crate) convention: Convention,
    /// The requests that were sent.
    pub(crate) sent: usize,
    pub(crate) findings: Vec<Finding>,
}

/// A rule, and whether the service keeps it.
pub(crate) struct Finding {
    pub(crate) rule: &'static Rule,
    pub(crate) basis: &'static Basis,
    pub(crate) verdict: Verdict,
}

impl Finding {
    /// `None` if the rule is not of this convention.
    pub(crate) fn new(
        rule: &'static Rule,
        convention: Convention,
        verdict: Verdict,
    ) -> Option<Self> {
        let basis = rule.basis(convention)?;
        Some(Self {
            rule,
            basis,
            verdict,
        })
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// The report, for programs.
#[derive(Serialize)]
pub(crate) struct Rows<'a> {
    url: &'a str,
    profile: &'static str,
    requests: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
    rules: Vec<RuleResult<'a>>,
}

#[derive(Serialize)]
struct RuleResult<'a> {
    id: &'static str,
    level: &'static str,
    result: &'static str,
    found: &'a str,
    source: &'static str,
    advice: &'static str,
}

impl Report {
    /// How many rules are broken that a service must keep.
    pub(crate) fn broken(&self) -> usize {
        let failed = self.findings.iter().filter(|finding| finding.has_failed());
        failed
            .filter(|finding| finding.basis.level == Level::Must)
            .count()
    }

    pub(crate) fn count(&self, result: &str) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.verdict.word() == result)
            .count()
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        let rules = self.findings.iter().map(|finding| RuleResult {
            id: finding.rule.id,
            level: finding.basis.level.word(),
            result: finding.verdict.word(),
            found: finding.verdict.text(),
            source: finding.basis.sentence,
            advice: finding.rule.advice,
        });
        Rows {
            url: &self.url,
            profile: self.convention.name(),
            requests: self.sent,
            passed: self.count("passed"),
            failed: self.count("failed"),
            skipped: self.count("skipped"),
            rules: rules.collect(),
        }
    }

    /// The counts, as one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} passed, {} failed ({} of them must be kept), {} skipped, by {} requests",
            self.count("passed"),
            self.count("failed"),
            self.broken(),
            self.count("skipped"),
            self.sent
        )
    }

    pub(crate) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        let cells = |finding: &Finding| {
            [
                finding.rule.id,
                finding.basis.level.word(),
                finding.verdict.word(),
                finding.verdict.text(),
            ]
            .map(str::to_owned)
        };
        let rows: Vec<_> = self.findings.iter().map(cells).collect();
        output.table(["RULE", "LEVEL", "RESULT", "FOUND"], &rows)?;
        for finding in self.findings.iter().filter(|finding| finding.has_failed()) {
            output.line(&format!(
                "\n{}: {}\n  Source: {}",
                finding.rule.id, finding.rule.advice, finding.basis.sentence
            ))?;
        }
        output.line(&format!("\n{}", self.summary()))
    }
}
