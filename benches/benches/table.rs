//! Prints the table of `README.md`: all contenders take turns in one process, so that whatever else
//! the machine does hits them alike, and each is compared with its neighbours of the same round.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use idempotence_benches::on_redis::{OnRedis, TASKS};
use idempotence_benches::{Lap, in_memory};

fn main() {
    // `cargo bench` says so; anything else, such as `cargo test --benches`, only tries it out.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        24
    } else {
        1
    };
    let on_redis = OnRedis::start();
    println!("{}\n", machine(&on_redis.version));

    println!(
        "| Redis | attribute | by hand | `idempotent` 2.0 | `rslock` 0.10 | of by hand | of `idempotent` |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for tasks in TASKS {
        let rounds = Rounds::run(&on_redis.laps(tasks), rounds, Duration::from_millis(200));
        let calls = if tasks == 1 {
            "1 task"
        } else {
            &format!("{tasks} tasks")
        };
        rounds.print(calls, |seconds| {
            format!("{:.0}/s", f64::from(tasks) / seconds)
        });
    }

    println!(
        "\n| memory, 1 task | attribute | by hand | `idempotent` 2.0 | of by hand | of `idempotent` |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (threads, runtime) in in_memory::runtimes() {
        let rounds = Rounds::run(
            &in_memory::laps(&runtime),
            rounds,
            Duration::from_millis(50),
        );
        rounds.print(threads, |seconds| format!("{:.0} ns", seconds * 1e9));
    }
}

/// Seconds per call of a task: of every contender, in every round.
struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// Lets every contender run about as long as `long`, in turns.
    fn run(laps: &[Lap], rounds: usize, long: Duration) -> Self {
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
    /// and the third, which is the median over the rounds, too.
    fn print(&self, name: &str, show: impl Fn(f64) -> String) {
        let mut row = format!("| {name}");
        for contender in 0..self.0[0].len() {
            let seconds = self.median(|round| round[contender]);
            let _ = write!(row, " | {}", show(seconds));
        }
        for other in [1, 2] {
            let ratio = self.median(|round| round[other] / round[0]);
            let _ = write!(row, " | {ratio:.2}");
        }
        println!("{row} |");
    }

    fn median(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
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

/// What it runs on, as well as that can be found out.
fn machine(redis: &str) -> String {
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
        "{cpu}, {cores} cores; {}; Redis {redis}; {}",
        said_by("uname", "-sr"),
        said_by("rustc", "--version"),
    )
}
