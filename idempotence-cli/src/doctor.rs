//! `doctor`: checks the store.

use idempotence::store::{Finding, Level};
use serde::Serialize;

use crate::args::Access;
use crate::exit::Failure;
use crate::open::open;
use crate::output::Output;

pub(crate) async fn run(access: &Access, output: &mut Output) -> Result<(), Failure> {
    let idempotency = open(access).await?;
    let diagnosis = idempotency.doctor().await;
    let printed = if output.is_json() {
        let findings = diagnosis.findings().iter().map(FindingRow::of).collect();
        let worst = word(diagnosis.worst());
        output.json(&DoctorReport { worst, findings })
    } else {
        output.line(&diagnosis.to_string())
    };
    if diagnosis.worst() < Level::Problem {
        return printed;
    }
    // Also if nobody reads the output: a script reads the exit code.
    Err(Failure::runtime("the store has a problem"))
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    worst: &'static str,
    findings: Vec<FindingRow<'a>>,
}

#[derive(Serialize)]
struct FindingRow<'a> {
    level: &'static str,
    found: &'a str,
    advice: Option<&'a str>,
}

impl<'a> FindingRow<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self {
            level: word(finding.level()),
            found: finding.found(),
            advice: finding.advice(),
        }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Fine => "fine",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Problem => "problem",
    }
}
