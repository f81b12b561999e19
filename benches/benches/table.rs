//! Prints the table of `README.md`. All contenders take turns in one process, so that other load of the machine affects them
//! alike. Each contender is compared with the others of the same round.

use std::time::Duration;

use idempotence_benches::on_cluster::OnCluster;
use idempotence_benches::on_redis::{OnRedis, TASKS};
use idempotence_benches::on_sql::OnSql;
use idempotence_benches::one_core::OneCore;
use idempotence_benches::replay::{self, SIZES};
use idempotence_benches::rounds::{Rounds, machine, per_second, rounds, tasks_text};
use idempotence_benches::storm::Answer;
use idempotence_benches::{Lap, in_memory};

fn main() {
    let rounds = rounds();
    let on_redis = OnRedis::start();
    println!("{}", machine(&format!("Redis {}", on_redis.version)));

    first_calls(&on_redis, rounds);
    limits(&on_redis, rounds);
    on_a_cluster(rounds);
    replays(&on_redis, rounds);
    storms(&on_redis, rounds);
}

fn first_calls(on_redis: &OnRedis, rounds: usize) {
    let contenders = [
        ATTRIBUTE,
        BY_HAND,
        PEER,
        "`rslock` 0.10",
        ALONE,
        IN_BACKGROUND,
    ];
    header("Redis", &contenders);
    for tasks in TASKS {
        let _one_core = (tasks == 1).then(OneCore::pin);
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

/// How far the attribute is from what the servers can do.
fn limits(on_redis: &OnRedis, rounds: usize) {
    println!("\n| limit | attribute | limit | of the limit |");
    println!("| --- | ---: | ---: | ---: |");
    let row = |name: &str, tasks: u32, laps: &[Lap<'_>]| {
        let rounds = Rounds::run(laps, rounds, Duration::from_millis(200));
        let name = format!("{name}, {}", tasks_text(tasks));
        rounds.print(&name, |seconds| per_second(tasks, seconds));
    };
    for tasks in [64, 512] {
        row("Redis", tasks, &on_redis.limit(tasks));
    }
    let on_postgres = OnSql::postgres_with_few_rows();
    row(&on_postgres.version, 64, &on_postgres.limit(64));
}

fn on_a_cluster(rounds: usize) {
    let on_cluster = OnCluster::start();
    header("Redis Cluster", &[ATTRIBUTE, BY_HAND, ALONE]);
    for tasks in TASKS {
        let _one_core = (tasks == 1).then(OneCore::pin);
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
            let one_core = (tasks == 1).then(OneCore::pin);
            row("Redis", &on_redis.replays(tasks, size), 150);
            drop(one_core);
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
const ALONE: &str = "`batch = false`";
const IN_BACKGROUND: &str = "attribute, settle in background";

/// The last columns are the ratios of the second and third contender to the first.
fn header(name: &str, contenders: &[&str]) {
    let columns = " ---: |".repeat(contenders.len() + 2);
    let third = contenders[2];
    let contenders = contenders.join(" | ");
    println!("\n| {name} | {contenders} | of by hand | of {third} |");
    println!("| --- |{columns}");
}
