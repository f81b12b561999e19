//! Counts what one call costs, and compares the counts with the table of `benches/README.md`.
//!
//! `--update` writes the counts into the table. Names of cases count only these cases, and compare nothing.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::alloc::System;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::{env, fs};

use idempotence_counts::{Case, cases};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

use self::table::{Costs, Row, Table};

mod table;
mod valgrind;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (options, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with("--"));
    let update = match options[..] {
        [] => false,
        [option] if option == "--update" => true,
        _ => return failure("the options are: --update, and the names of cases"),
    };
    let mut cases: Vec<_> = cases().collect();
    if !names.is_empty() {
        let all: Vec<_> = cases.iter().map(Case::slug).collect();
        if let Some(name) = names.iter().find(|name| !all.contains(name)) {
            return failure(&format!("no case `{name}`; cases:\n{}", all.join("\n")));
        }
        cases.retain(|case| names.contains(&&case.slug()));
    }
    let instructions = match valgrind::costs(&cases) {
        Ok(instructions) => instructions,
        Err(error) => return failure(&error),
    };
    let counted: Vec<_> = cases
        .iter()
        .zip(instructions)
        .map(|(case, costs)| (case, with_allocations(case, costs)))
        .collect();
    let found = Table {
        made_with: made_with(),
        rows: rows(&counted),
    };
    if !names.is_empty() {
        println!("{found}");
        return ExitCode::SUCCESS;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let page = fs::read_to_string(&path).expect("the page with the table");
    if update {
        fs::write(&path, found.written_into(&page)).expect("the page can be written");
        println!("{found}\nThe table of benches/README.md has these counts now.");
        return ExitCode::SUCCESS;
    }
    match Table::read_from(&page).compare(&found) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => failure(&text),
    }
}

fn failure(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::FAILURE
}

/// The rows of the table: each case, but the difference of two storms for a call that waits.
fn rows(counted: &[(&Case, Costs)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, (case, costs)) in counted.iter().enumerate() {
        let row = |call: &str, costs| Row {
            call: call.to_owned(),
            store: case.store.to_owned(),
            costs,
        };
        let previous = number.checked_sub(1).map(|number| &counted[number]);
        match (case.followers(), previous) {
            (None, _) => rows.push(row(case.call, *costs)),
            (Some(followers), Some((fewer, fewer_costs))) => {
                if let Some(fewer) = fewer.followers() {
                    let more = f64::from(followers - fewer);
                    let costs = costs.minus(fewer_costs).divided_by(more);
                    rows.push(row("waiting follower", costs));
                }
            }
            (Some(_), None) => {}
        }
    }
    rows
}

/// Adds the allocations and their bytes, and the commands. Allocations are medians, because a table grows in one of many calls.
fn with_allocations(case: &Case, costs: Costs) -> Costs {
    static STATS: Mutex<Vec<Stats>> = Mutex::new(Vec::new());

    let started = case.start();
    started.lap(0, case.calls, || {});
    let mut stats = STATS.lock().expect("no panic");
    stats.clear();
    stats.reserve(1 + case.calls as usize);
    drop(stats);
    let commands = started.commands();
    started.lap(1, case.calls, || {
        let now = ALLOCATOR.stats();
        STATS.lock().expect("no panic").push(now);
    });
    let commands = u32::try_from(started.commands() - commands).expect("few commands");
    let stats = STATS.lock().expect("no panic");
    let median = |of: fn(&Stats) -> usize| {
        let each = stats.windows(2).map(|pair| of(&pair[1]) - of(&pair[0]));
        let mut each: Vec<_> = each.collect();
        each.sort_unstable();
        u32::try_from(each[each.len() / 2]).ok().map(f64::from)
    };
    let Costs([instructions, atomics, system_calls, ..]) = costs;
    Costs([
        instructions,
        atomics,
        system_calls,
        median(|stats| stats.allocations + stats.reallocations),
        median(|stats| stats.bytes_allocated),
        (case.store != "memory").then_some(f64::from(commands) / f64::from(case.calls)),
    ])
}

/// The versions on which instructions depend.
fn made_with() -> String {
    let answer = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let rustc = answer("rustc", &["--version"]).unwrap_or_default();
    let libc = answer("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_default();
    format!("{rustc}; {libc}; {}", env::consts::ARCH)
}
