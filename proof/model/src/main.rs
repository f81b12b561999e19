//! Checks every space and prints a table. `--long` also checks the larger spaces.

use std::process::ExitCode;
use std::thread::available_parallelism;

use idempotence_model::{Search, Steps, fences, mistakes, recovery, several, spaces, tokens};

fn main() -> ExitCode {
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
    let mut of_tokens = tokens::spaces::all();
    let mut of_fences = fences::spaces::all();
    let mut of_steps = recovery::spaces::all();
    if std::env::args().any(|argument| argument == "--long") {
        spaces.extend(spaces::long());
        of_tokens.extend(tokens::spaces::long());
        of_fences.extend(fences::spaces::long());
        of_steps.extend(recovery::spaces::long());
    }
    let broken = mistakes::wrong().into_iter().chain(mistakes::limits());
    let holds = check_all(broken.collect(), spaces);
    let tokens_hold = check_all(tokens::spaces::wrong(), of_tokens);
    let broken = fences::spaces::wrong().into_iter();
    let broken = broken.chain(fences::spaces::limits());
    let fences_hold = check_all(broken.collect(), of_fences);
    let keys_hold = check_all(several::spaces::wrong(), several::spaces::all());
    let broken = recovery::spaces::wrong().into_iter();
    let broken = broken.chain(recovery::spaces::limits());
    let steps_hold = check_all(broken.collect(), of_steps);
    if holds && tokens_hold && fences_hold && keys_hold && steps_hold {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the table of one model: each mistake with the rule that it breaks, and each space. Returns whether all spaces hold.
#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn check_all<C: Steps>(broken: Vec<(C, C::Rule)>, spaces: Vec<Search<C>>) -> bool {
    println!("| space | states | depth | seconds | verdict |\n| --- | --- | --- | --- | --- |");
    for (config, rule) in broken {
        println!("{}", Search::breaks(config, rule));
    }
    let threads = available_parallelism().map_or(1, usize::from);
    let mut holds = true;
    for space in spaces {
        let outcome = space.check(threads);
        holds &= outcome.holds();
        println!("{outcome}");
    }
    println!();
    holds
}
