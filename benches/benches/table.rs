//! Prints the table of `README.md`: all contenders take turns in one process, so that whatever else
//! the machine does hits them alike, and each is compared with its neighbours of the same round.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use idempotence_benches::on_cluster::OnCluster;
use idempotence_benches::on_redis::{OnRedis, TASKS};
use idempotence_benches::replay::{self, SIZES};
use idempotence_benches::storm::Answer;
use idempotence_benches::{Lap, in_memory};

fn main() {
    // `cargo bench` says so; anything else, such as `cargo test --benches`, only tries it out.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        24
    } else {
        1
    };
    let on_redis = OnRedis::start();
    println!("{}", machine(&on_redis.version));

    first_calls(&on_redis, rounds);
    on_a_cluster(rounds);
    replays(&on_redis, rounds);
    storms(&on_redis, rounds);
}

fn first_calls(on_redis: &OnRedis, rounds: usize) {
    header("Redis", &[ATTRIBUTE, BY_HAND, PEER, "`rslock` 0.10"]);
    for tasks in TASKS {
        let rounds = Rounds::run(&on_redis.laps(tasks), rounds, Duration::from_millis(200));
        rounds.print(&tasks_text(tasks), |seconds| per_second(tasks, seconds));
    }
    header("memory, 1 task", &[ATTRIBUTE, BY_HAND, PEER]);
    for (threads, runtime) in in_memory::runtimes() {
        let laps = in_memory::laps(&runtime);
        let rounds = Rounds::run(&laps, rounds, Duration::from_millis(50));
        rounds.print(threads, |seconds| format!("{:.0} ns", seconds * 1e9));
    }
}

fn on_a_cluster(rounds: usize) {
    let on_cluster = OnCluster::start();
    println!("\n| Redis Cluster | {ATTRIBUTE} | {BY_HAND} | of by hand |");
    println!("| --- | ---: | ---: | ---: |");
    for tasks in TASKS {
        let rounds = Rounds::run(&on_cluster.laps(tasks), rounds, Duration::from_millis(200));
        rounds.print(&tasks_text(tasks), |seconds| per_second(tasks, seconds));
    }
}

fn replays(on_redis: &OnRedis, rounds: usize) {
    let runtimes = in_memory::runtimes();
    header("replay", &[ATTRIBUTE, BY_HAND, PEER]);
    for (size, size_text) in SIZES {
        for tasks in replay::TASKS {
            let row = |store: &str, laps: &[Lap<'_>], long| {
                let name = format!("{size_text}, {store}, {}", tasks_text(tasks));
                let rounds = Rounds::run(laps, rounds, Duration::from_millis(long));
                rounds.print(&name, |seconds| per_second(tasks, seconds));
            };
            row("Redis", &on_redis.replays(tasks, size), 150);
            for (threads, runtime) in &runtimes {
                let store = format!("memory, {threads}");
                row(&store, &in_memory::replays(runtime, tasks, size), 50);
            }
        }
    }
}

fn storms(on_redis: &OnRedis, rounds: usize) {
    let runtimes = in_memory::runtimes();
    header("1,000 equal calls", &[ATTRIBUTE, BY_HAND, PEER]);
    for (answer, answer_text) in [(Answer::Result, "all get it"), (Answer::No, "999 refused")] {
        let row = |store: &str, laps: &[Lap<'_>]| {
            let rounds = Rounds::run(laps, rounds, Duration::from_millis(100));
            rounds.print(&format!("{answer_text}, {store}"), |seconds| {
                format!("{:.2} ms", seconds * 1e3)
            });
        };
        row("Redis", &on_redis.storms(answer));
        for (threads, runtime) in &runtimes {
            let store = format!("memory, {threads}");
            row(&store, &in_memory::storms(runtime, answer));
        }
    }
}

const ATTRIBUTE: &str = "attribute";
const BY_HAND: &str = "by hand";
const PEER: &str = "`idempotent` 2.0";

fn header(name: &str, contenders: &[&str]) {
    let columns = " ---: |".repeat(contenders.len() + 2);
    let contenders = contenders.join(" | ");
    println!("\n| {name} | {contenders} | of by hand | of `idempotent` |");
    println!("| --- |{columns}");
}

fn tasks_text(tasks: u32) -> String {
    if tasks == 1 {
        "1 task".to_owned()
    } else {
        format!("{tasks} tasks")
    }
}

fn per_second(tasks: u32, seconds: f64) -> String {
    format!("{:.0}/s", f64::from(tasks) / seconds)
}

/// Seconds per call of a task, or per storm: of every contender, in every round.
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
    /// and the third (if there is one), which is the median over the rounds, too.
    fn print(&self, name: &str, show: impl Fn(f64) -> String) {
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
