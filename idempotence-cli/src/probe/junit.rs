//! The report as XML, in the form of `JUnit`, which servers that run tests read.

use std::fmt::Write as _;

use super::report::Report;
use super::rule::{Level, Verdict};

/// A broken rule that a service need not keep is a skipped test, because a failed test stops a pipeline.
pub(crate) fn text(report: &Report) -> String {
    let mut cases = String::new();
    for finding in &report.findings {
        let (id, level) = (finding.rule.id, finding.basis.level);
        let _ = write!(
            cases,
            "\n    <testcase classname=\"{}\" name=\"{id}\"",
            level.word()
        );
        let message = escaped(finding.verdict.text());
        match (&finding.verdict, level) {
            (Verdict::Passed, _) => cases.push_str("/>"),
            (Verdict::Failed(_), Level::Must) => {
                let advice = escaped(&format!(
                    "{} Source: {}",
                    finding.rule.advice, finding.basis.sentence
                ));
                let failure = "><failure message=";
                let _ = write!(
                    cases,
                    "{failure}\"{message}\">{advice}</failure></testcase>"
                );
            }
            (Verdict::Failed(_), _) => {
                let failed = "><skipped message=\"failed: ";
                let _ = write!(cases, "{failed}{message}\"/></testcase>");
            }
            (Verdict::Skipped(_), _) => {
                let _ = write!(cases, "><skipped message=\"{message}\"/></testcase>");
            }
        }
    }
    let (tests, broken) = (report.findings.len(), report.broken());
    let skipped = tests - broken - report.count("passed");
    let name = escaped(&format!(
        "idempotence probe {}: {}",
        report.convention.name(),
        report.url
    ));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{name}\" tests=\"{tests}\" \
         failures=\"{broken}\" skipped=\"{skipped}\">{cases}\n  </testsuite>\n</testsuites>"
    )
}

/// Text that may be in an attribute. XML allows no control characters.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            char if char.is_control() => safe.push(' '),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escaped("a<b> & \"c\"\u{1b}"),
            "a&lt;b&gt; &amp; &quot;c&quot; "
        );
    }
}
