//! Checks every space and prints a table. `--long` also checks the larger spaces.

use std::process::ExitCode;
use std::thread::available_parallelism;

use idempotence_model::{check, spaces, tokens};

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn main() -> ExitCode {
    println!("| space | states | depth | seconds | verdict |\n| --- | --- | --- | --- | --- |");
    for (config, rule) in spaces::wrong().into_iter().chain(spaces::limits()) {
        println!("{}", check(config, &[rule], &[], 1));
    }
    let mut spaces: Vec<_> = [
        spaces::network(),
        spaces::ends(),
        spaces::holds(),
        spaces::releases(),
        spaces::stores(),
        spaces::duplicates(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let is_long = std::env::args().any(|argument| argument == "--long");
    if is_long {
        spaces.extend(spaces::long());
    }
    let threads = available_parallelism().map_or(1, usize::from);
    let mut holds = true;
    for space in spaces {
        let outcome = check(space.config, &space.rules, &space.events, threads);
        holds &= outcome.broken.is_none() && outcome.missing.is_empty();
        println!("{outcome}");
    }
    holds &= check_tokens(is_long);
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Checks the spaces of tokens. Returns whether all rules hold.
#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn check_tokens(is_long: bool) -> bool {
    println!("\n| space | states | seconds | verdict |\n| --- | --- | --- | --- |");
    for (config, rule) in tokens::spaces::wrong() {
        println!("{}", tokens::check(config, &[rule], &[]));
    }
    let mut spaces = tokens::spaces::all();
    if is_long {
        spaces.extend(tokens::spaces::long());
    }
    let mut holds = true;
    for space in spaces {
        let outcome = tokens::check(space.config, &tokens::Rule::ALL, &space.events);
        holds &= outcome.broken.is_none() && outcome.missing.is_empty();
        println!("{outcome}");
    }
    holds
}
