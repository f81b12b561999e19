//! Contenders take turns, so that other load of the machine affects them alike. Each contender is compared with the others of
//! the same round.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use crate::Lap;
use crate::latency::Latency;

/// The number of rounds: one, unless `cargo bench` runs this.
pub fn rounds() -> usize {
    // `cargo bench` passes this argument. `cargo test --benches` does not.
    if std::env::args().any(|arg| arg == "--bench") {
        24
    } else {
        1
    }
}

/// Whether an argument of the command is a part of `name`, or there is no argument.
pub fn is_asked_for(name: &str) -> bool {
    let mut parts = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .peekable();
    parts.peek().is_none() || parts.any(|part| name.contains(&part))
}

/// Seconds per call of a task, or per storm, and the percentiles of calls: of every contender, in every round.
pub struct Rounds {
    seconds: Values,
    /// Empty if calls were not measured.
    latencies: Vec<(&'static str, Values)>,
}

/// A value of every contender, in every round.
pub struct Values(Vec<Vec<f64>>);

impl Rounds {
    /// Runs every contender for about `long`, in turns.
    pub fn run<'a, 'b: 'a>(
        laps: impl IntoIterator<Item = &'a Lap<'b>>,
        rounds: usize,
        long: Duration,
    ) -> Self {
        let laps: Vec<_> = laps.into_iter().collect();
        let calls: Vec<u32> = laps.iter().map(|lap| calls_within(long, lap)).collect();
        let (mut seconds, mut latencies) = (Vec::new(), Vec::new());
        for first in 0..rounds {
            let mut round = vec![0.0; laps.len()];
            let mut latency = vec![None; laps.len()];
            for turn in 0..laps.len() {
                // Each contender is the first equally often.
                let contender = (first + turn) % laps.len();
                let calls = calls[contender];
                let took = laps[contender].1(calls.into());
                round[contender] = took.total.as_secs_f64() / f64::from(calls);
                latency[contender] = took.latency;
            }
            seconds.push(round);
            latencies.extend(latency.into_iter().collect::<Option<Vec<_>>>());
        }
        let percentile = |of: fn(&Latency) -> f64| {
            let round = |latencies: &Vec<Latency>| latencies.iter().map(of).collect();
            Values(latencies.iter().map(round).collect())
        };
        Self {
            seconds: Values(seconds),
            latencies: if latencies.is_empty() {
                Vec::new()
            } else {
                vec![
                    ("p50", percentile(|latency| latency.p50)),
                    ("p99", percentile(|latency| latency.p99)),
                ]
            },
        }
    }

    /// Prints a row: the median of every contender, then the median ratios of the second and third contender to
    /// the attribute. If calls were measured, prints a row for each percentile.
    pub fn print(&self, name: &str, show: impl Fn(f64) -> String) {
        self.seconds.print(name, show);
        for (percentile, values) in &self.latencies {
            values.print(&format!("{name}, {percentile}"), latency_text);
        }
    }

    /// Seconds per call of a task, or per storm.
    pub fn seconds(&self) -> &Values {
        &self.seconds
    }

    /// The percentiles of calls, in seconds, and their names. Empty if calls were not measured.
    pub fn latencies(&self) -> &[(&'static str, Values)] {
        &self.latencies
    }
}

impl Values {
    fn print(&self, name: &str, show: impl Fn(f64) -> String) {
        let mut row = format!("| {name}");
        for contender in 0..self.0[0].len() {
            let value = self.median(|round| round[contender]);
            let _ = write!(row, " | {}", show(value));
        }
        for other in 1..self.0[0].len().min(3) {
            let ratio = self.median(|round| round[other] / round[0]);
            let _ = write!(row, " | {ratio:.2}");
        }
        println!("{row} |");
    }

    /// The median of a value of each round.
    pub fn median(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        let mut all: Vec<f64> = self.0.iter().map(|round| of(round)).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

/// Warms a contender up and returns how many calls it makes in about this time.
fn calls_within(long: Duration, (_, lap): &Lap) -> u32 {
    let mut calls = 1;
    loop {
        let taken = lap(calls.into()).total;
        if taken >= long / 2 {
            let per_call = taken / calls;
            let calls = long.as_nanos() / per_call.as_nanos().max(1);
            return u32::try_from(calls).map_or(u32::MAX, |calls| calls.max(1));
        }
        calls *= 2;
    }
}

/// The number of tasks as text.
pub fn tasks_text(tasks: u32) -> String {
    if tasks == 1 {
        "1 task".to_owned()
    } else {
        format!("{tasks} tasks")
    }
}

/// Calls per second of `tasks` tasks that need `seconds` per call.
pub fn per_second(tasks: u32, seconds: f64) -> String {
    format!("{:.0}/s", f64::from(tasks) / seconds)
}

/// The duration of a call as text.
pub fn latency_text(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}

/// Describes the machine.
pub fn machine(server: &str) -> String {
    let output_of = |program: &str, arg: &str| {
        let output = Command::new(program).arg(arg).output();
        let text = output
            .ok()
            .and_then(|output| String::from_utf8(output.stdout).ok());
        text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpu = cpu.map_or("unknown processor", |(_, cpu)| cpu);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cpu}, {cores} cores; {}; {server}; {}",
        output_of("uname", "-sr"),
        output_of("rustc", "--version"),
    )
}
