//! The command `idempotence`, for the operators of a program that uses the crate `idempotence`.

mod args;
mod ask;
mod bench;
mod config;
mod doctor;
mod exit;
mod find;
mod late;
mod ls;
mod open;
mod output;
mod pattern;
mod probe;
mod progress;
mod release;
mod show;
mod tables;
mod tail;
mod texts;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command, Config};
use crate::exit::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let args = Args::parse();
    let mut output = Output::new(args.json);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(args, &mut output)),
        Err(error) => Err(Failure::runtime(format!("cannot start: {error}"))),
    };
    output.exit(outcome)
}

async fn run(args: Args, output: &mut Output) -> Result<(), Failure> {
    let access = &args.access;
    match args.command {
        Command::Ls(ls) => ls::run(access, &ls, output).await,
        Command::Show(show) => show::run(access, &show, output).await,
        Command::Release(release) => release::run(access, &release, output).await,
        Command::Tail(tail) => tail::run(access, &tail, output).await,
        Command::Doctor => doctor::run(access, output).await,
        Command::Config(Config::Check { file }) => config::check(&file, output),
        Command::Config(Config::Explain { endpoint, file }) => {
            config::explain(&endpoint, file.as_deref(), output)
        }
        Command::Probe(probe) => probe::run(&probe, output).await,
        Command::Bench(bench) => bench::run(access, &bench, output).await,
        Command::Migrate => tables::migrate(access, output).await,
        Command::Purge => tables::purge(access, output).await,
        Command::Completions { shell } => texts::completions(shell, output),
        Command::Man => texts::man(output),
    }
}
