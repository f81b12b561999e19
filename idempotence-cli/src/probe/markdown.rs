//! The report as a table for a page.

use std::fmt::Write as _;

use super::report::Report;
use super::rule::Verdict;

pub(crate) fn text(report: &Report) -> String {
    let mut text = format!(
        "Profile `{}`: {}.\n\n| rule | level | result |\n| --- | --- | --- |\n",
        report.convention.name(),
        report.summary()
    );
    for finding in &report.findings {
        let badge = match finding.verdict {
            Verdict::Passed => "✅",
            Verdict::Failed(_) => "❌",
            Verdict::Skipped(_) => "➖",
        };
        let found = finding
            .verdict
            .text()
            .replace('|', "\\|")
            .replace('\n', " ");
        let (id, level) = (finding.rule.id, finding.basis.level.word());
        let _ = writeln!(text, "| `{id}` | {level} | {badge} {found} |");
    }
    text.truncate(text.trim_end().len());
    text
}
