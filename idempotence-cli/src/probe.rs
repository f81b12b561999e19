//! `probe`: tests whether a service of HTTP answers repeated requests as its convention says.

mod client;
pub(crate) mod convention;
mod effect;
mod junit;
mod report;
mod rule;
mod rules;
mod run;
mod scenario;
mod seen;
mod sentences;
mod target;

use crate::args::{Format, Probe};
use crate::ask::confirm;
use crate::exit::Failure;
use crate::output::Output;

use self::report::Report;
use self::run::Run;
use self::target::Target;

pub(crate) async fn run(args: &Probe, output: &mut Output) -> Result<(), Failure> {
    let target = Target::read(args)?;
    let mut run = Run::new(args, &target)?;
    let (most, effects) = run.requests();
    if most > args.limit {
        return Err(Failure::usage(format!(
            "this may send {most} requests, and --limit is {}",
            args.limit
        )));
    }
    if !args.yes {
        let question = format!(
            "Send up to {most} requests to {}, {} a second, and read the effect {effects} times? Each may have an effect.",
            target.shown(),
            args.rate
        );
        confirm(&question, "nothing was sent")?;
    }
    let report = run.report().await?;
    print(&report, args.format, output)?;
    match report.broken() {
        0 => Ok(()),
        broken => Err(Failure::refused(format!(
            "{broken} rules are broken that a service must keep"
        ))),
    }
}

fn print(report: &Report, format: Format, output: &mut Output) -> Result<(), Failure> {
    match format {
        Format::Junit => output.line(&junit::text(report)),
        Format::Table if output.is_json() => output.json(&report.rows()),
        Format::Table => report.print(output),
    }
}
