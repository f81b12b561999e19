//! What Valgrind counts: instructions, atomic writes and system calls.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use idempotence_counts::Case;

use crate::table::Costs;

/// The counts of each case. They are unknown where Valgrind does not run.
pub(crate) fn costs(cases: &[Case]) -> Result<Vec<Costs>, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!(
            "Skipped: instructions, atomic writes and system calls are counted on x86-64 Linux only."
        );
        return Ok(vec![Costs::default(); cases.len()]);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts");
    fs::create_dir_all(&folder).map_err(|error| format!("no folder for profiles: {error}"))?;
    println!("The profiles of the cases are in {}", folder.display());

    let next = AtomicUsize::new(0);
    let count = || {
        let mut counted = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            match cases.get(number) {
                Some(case) => counted.push((number, costs_of(&folder, case)?)),
                None => return Ok::<_, String>(counted),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let counted: Result<Vec<_>, _> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(count)).collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|counted| counted.expect("no panic")).collect()
    });
    let mut counted = counted?.concat();
    counted.sort_unstable_by_key(|(number, _)| *number);
    Ok(counted.into_iter().map(|(_, costs)| costs).collect())
}

/// Each case has its own process, because the memory that other cases leave behind changes the work of the allocator.
fn costs_of(folder: &Path, case: &Case) -> Result<Costs, String> {
    let profile = folder.join(case.slug());
    let part = |number: u32| profile.with_extension(number.to_string());
    // A part ends at each border: the part before the lap, the lap, the part after it.
    for number in 1..=3 {
        let _ = fs::remove_file(part(number));
    }
    let valgrind = Command::new("valgrind")
        .args([
            "--quiet",
            "--tool=callgrind",
            "--dump-before=*counts_border*",
        ])
        .args(["--collect-bus=yes", "--collect-systime=yes"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(env!("CARGO_BIN_EXE_calls"))
        .arg(case.slug())
        .env("GLIBC_TUNABLES", TUNABLES)
        .output();
    let output = valgrind.map_err(|error| {
        format!("valgrind does not start ({error}); install it: apt-get install valgrind")
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind failed ({}):\n{text}", output.status));
    }
    fs::rename(part(2), &profile).map_err(|error| format!("no profile of the lap: {error}"))?;
    let _ = fs::remove_file(part(1));
    let text = fs::read_to_string(&profile).map_err(|error| format!("no profile: {error}"))?;
    let counts = counts(&text).ok_or("the profile has no sums")?;
    let [instructions, atomics, system_calls] =
        counts.map(|count| Some(count / f64::from(case.calls)));
    Ok(Costs([
        instructions,
        atomics,
        system_calls,
        None,
        None,
        None,
    ]))
}

/// The sums of a profile: instructions, atomic writes, and system calls other than [`CHANCE`].
fn counts(profile: &str) -> Option<[f64; 3]> {
    let line = |name| profile.lines().find_map(|line| line.strip_prefix(name));
    let (events, sums) = (line("events: ")?, line("summary: ")?);
    let place = |name| events.split(' ').position(|event| event == name);
    let system_calls = place("sysCount")?;
    Some([
        number(sums, place("Ir")?),
        number(sums, place("Ge")?),
        // The lines of functions begin with a place in the source.
        number(sums, system_calls) - own_cost(profile, CHANCE, system_calls + 1),
    ])
}

/// The cost of a function, without the functions that it calls.
fn own_cost(profile: &str, wanted: &str, column: usize) -> f64 {
    // A function has a number in parentheses. Its name follows only where the number is first used.
    let named = profile.lines().find_map(|line| {
        let (_, function) = line.split_once("fn=")?;
        function.strip_suffix(wanted)?.strip_suffix(' ')
    });
    let (mut cost, mut is_wanted, mut is_callee) = (0.0, false, false);
    for line in profile.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            is_wanted = named.is_some() && function.split(' ').next() == named;
        } else if line.starts_with("calls=") {
            // The next line is the cost of the called function.
            is_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if is_wanted && !is_callee {
                cost += number(line, column);
            }
            is_callee = false;
        }
    }
    cost
}

/// The number in a column. Zeros at the end of a line are left out.
fn number(line: &str, column: usize) -> f64 {
    let number = line.split(' ').nth(column);
    number.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Draws random bits. A thread does it for several calls at once if they follow each other quickly, so the count depends on the speed of
/// the machine.
const CHANCE: &str = "getrandom";

/// Without these the work of `malloc` and `free` depends on where earlier blocks are in memory: freed blocks are merged now and
/// then, and memory goes back to the system and is fetched again.
const TUNABLES: &str = "glibc.malloc.mxfast=0:glibc.malloc.tcache_count=2000:\
     glibc.malloc.trim_threshold=1000000000:glibc.malloc.top_pad=100000000";
