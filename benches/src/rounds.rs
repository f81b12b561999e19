//! Contenders that take turns, so that whatever else the machine does hits them alike, and each is compared with its
//! neighbours of the same round.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use crate::Lap;

/// How many rounds there are: one, if this is only tried out.
pub fn rounds() -> usize {
    // `cargo bench` says so; anything else, such as `cargo test --benches`, only tries it out.
    if std::env::args().any(|arg| arg == "--bench") {
        24
    } else {
        1
    }
}

/// Seconds per call of a task, or per storm: of every contender, in every round.
pub struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// Lets every contender run about as long as `long`, in turns.
    pub fn run(laps: &[Lap], rounds: usize, long: Duration) -> Self {
        let calls: Vec<u32> = laps.iter().map(|lap| calls_within(long, lap)).collect();
        let round = |first: usize| {
            let mut round = vec![0.0; laps.len()];
            for turn in 0..laps.len() {
                // Each is first as often as any other.
                let contender = (first + turn) % laps.len();
                let calls = calls[contender];
                let taken = laps[contender].1(calls.into());
                round[contender] = taken.as_secs_f64() / f64::from(calls);
            }
            round
        };
        Self((0..rounds).map(round).collect())
    }

    /// A row: the median of every contender, then how often the attribute is as fast as the second
    /// and the third (if there is one), which is the median over the rounds, too.
    pub fn print(&self, name: &str, show: impl Fn(f64) -> String) {
        let mut row = format!("| {name}");
        for contender in 0..self.0[0].len() {
            let seconds = self.median(|round| round[contender]);
            let _ = write!(row, " | {}", show(seconds));
        }
        for other in 1..self.0[0].len().min(3) {
            let ratio = self.median(|round| round[other] / round[0]);
            let _ = write!(row, " | {ratio:.2}");
        }
        println!("{row} |");
    }

    /// The median of something that is known of every round.
    pub fn median(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        let mut all: Vec<f64> = self.0.iter().map(|round| of(round)).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

/// How many calls a contender makes in about so long. Warms it up, too.
fn calls_within(long: Duration, (_, lap): &Lap) -> u32 {
    let mut calls = 1;
    loop {
        let taken = lap(calls.into());
        if taken >= long / 2 {
            let per_call = taken / calls;
            let calls = long.as_nanos() / per_call.as_nanos().max(1);
            return u32::try_from(calls).map_or(u32::MAX, |calls| calls.max(1));
        }
        calls *= 2;
    }
}

/// How many tasks, for people.
pub fn tasks_text(tasks: u32) -> String {
    if tasks == 1 {
        "1 task".to_owned()
    } else {
        format!("{tasks} tasks")
    }
}

/// Calls per second of so many tasks, each of which needs so many seconds for one.
pub fn per_second(tasks: u32, seconds: f64) -> String {
    format!("{:.0}/s", f64::from(tasks) / seconds)
}

/// What it runs on, as well as that can be found out.
pub fn machine(server: &str) -> String {
    let said_by = |program: &str, arg: &str| {
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
        said_by("uname", "-sr"),
        said_by("rustc", "--version"),
    )
}
