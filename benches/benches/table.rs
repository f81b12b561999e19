//! Prints the table of `README.md`. All contenders take turns in one process, so that other load of the machine affects them
//! alike. Each contender is compared with the others of the same round.
//!
//! `-- 'replay, 64 KiB, Redis'` runs only the rows whose table and name contain this text.

use std::time::Duration;

use idempotence_benches::on_cluster::OnCluster;
use idempotence_benches::on_redis::{OnRedis, TASKS};
use idempotence_benches::on_sql::{self as sql, OnSql};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::replay::{self, SIZES};
use idempotence_benches::rounds::{Rounds, is_asked_for, machine, per_second, rounds, tasks_text};
use idempotence_benches::storm::Answer;
use idempotence_benches::{Lap, in_memory};

fn main() {
    let on_redis = OnRedis::start();
    println!("{}", machine(&format!("Redis {}", on_redis.version)));

    first_calls(&on_redis);
    first_calls_far_away();
    on_far_postgres();
    limits(&on_redis);
    on_a_cluster();
    replays(&on_redis);
    sealed_replays(&on_redis);
    storms(&on_redis);
}

fn first_calls(on_redis: &OnRedis) {
    let mut table = Table::new("Redis", &ON_REDIS);
    for tasks in TASKS {
        table.row_of_tasks("", tasks, 200, || on_redis.laps(tasks));
    }
    let mut table = Table::new("memory, 1 task", &CONTENDERS);
    for (threads, runtime) in in_memory::runtimes() {
        let show = |seconds| format!("{:.0} ns", seconds * 1e9);
        table.row(threads, 50, || in_memory::laps(&runtime), show);
    }
}

fn first_calls_far_away() {
    let mut table = Table::new("Redis, a round trip of 1 ms", &ON_REDIS);
    let name = "Redis, a round trip of 1 ms, `settle`";
    let mut settle = Table::new(name, &["background", "awaited"]);
    if !table.has_row_of(&TASKS) && !settle.has_row_of(&TASKS) {
        return;
    }
    let on_redis = OnRedis::far();
    for tasks in TASKS {
        table.row_of_tasks("", tasks, 300, || on_redis.laps(tasks));
    }
    for tasks in TASKS {
        settle.row_of_tasks("", tasks, 300, || on_redis.laps_in_background(tasks));
    }
}

fn on_far_postgres() {
    let mut table = Table::new(
        "PostgreSQL, a round trip of 1 ms",
        &[ATTRIBUTE, BY_HAND, ALONE, "`settle = \"background\"`"],
    );
    if table.has_row_of(&sql::TASKS) {
        let on_postgres = OnSql::postgres_far_away();
        for tasks in sql::TASKS {
            table.row_of_tasks("", tasks, 300, || on_postgres.claims(tasks).few);
        }
    }
}

/// How far the attribute is from what the servers can do.
fn limits(on_redis: &OnRedis) {
    let mut table = Table::new("limit", &[ATTRIBUTE, "the limit"]);
    for tasks in [64, 512] {
        table.row_of_tasks("Redis, ", tasks, 200, || on_redis.limit(tasks));
    }
    if table.is_asked_for("PostgreSQL, 64 tasks") {
        let on_postgres = OnSql::postgres_with_few_rows();
        table.row_of_tasks("PostgreSQL, ", 64, 200, || on_postgres.limit(64));
    }
}

fn on_a_cluster() {
    let mut table = Table::new("Redis Cluster", &[ATTRIBUTE, BY_HAND, ALONE]);
    if table.has_row_of(&TASKS) {
        let on_cluster = OnCluster::start();
        for tasks in TASKS {
            table.row_of_tasks("", tasks, 200, || on_cluster.laps(tasks));
        }
    }
}

fn replays(on_redis: &OnRedis) {
    let runtimes = in_memory::runtimes();
    let mut table = Table::new("replay", &CONTENDERS);
    for (size, size_text) in SIZES {
        for tasks in replay::TASKS {
            let name = format!("{size_text}, Redis, ");
            table.row_of_tasks(&name, tasks, 150, || on_redis.replays(tasks, size));
            for (threads, runtime) in &runtimes {
                let name = format!("{size_text}, memory, {threads}, {}", tasks_text(tasks));
                let laps = || in_memory::replays(runtime, tasks, size);
                table.row(&name, 50, laps, |seconds| per_second(tasks, seconds));
            }
        }
    }
}

fn sealed_replays(on_redis: &OnRedis) {
    let mut table = Table::new("replay, Redis", &["sealed", "unsealed"]);
    for (size, size_text) in SIZES {
        for tasks in replay::TASKS {
            let name = format!("{size_text}, ");
            table.row_of_tasks(&name, tasks, 150, || on_redis.sealed_replays(tasks, size));
        }
    }
}

fn storms(on_redis: &OnRedis) {
    let runtimes = in_memory::runtimes();
    let mut table = Table::new("1,000 equal calls", &CONTENDERS);
    let show = |seconds| format!("{:.2} ms", seconds * 1e3);
    for (answer, name) in [(Answer::Result, "all get it"), (Answer::No, "999 refused")] {
        table.row(
            &format!("{name}, Redis"),
            100,
            || on_redis.storms(answer),
            show,
        );
        for (threads, runtime) in &runtimes {
            let laps = || in_memory::storms(runtime, answer);
            table.row(&format!("{name}, memory, {threads}"), 100, laps, show);
        }
    }
}

const ATTRIBUTE: &str = "attribute";
const BY_HAND: &str = "by hand";
const PEER: &str = "`idempotent` 2.0";
const ALONE: &str = "`batch = false`";
const CONTENDERS: [&str; 3] = [ATTRIBUTE, BY_HAND, PEER];
const ON_REDIS: [&str; 5] = [ATTRIBUTE, BY_HAND, PEER, "`rslock` 0.10", ALONE];

/// A table, whose head is printed before its first row. Its last columns are the ratios of the second and third contender to the first.
struct Table {
    name: &'static str,
    contenders: Vec<&'static str>,
    has_head: bool,
}

impl Table {
    fn new(name: &'static str, contenders: &[&'static str]) -> Self {
        Self {
            name,
            contenders: contenders.to_vec(),
            has_head: false,
        }
    }

    fn is_asked_for(&self, row: &str) -> bool {
        is_asked_for(&format!("{}, {row}", self.name))
    }

    /// Whether one of the rows with these numbers of tasks is asked for.
    fn has_row_of(&self, tasks: &[u32]) -> bool {
        let mut rows = tasks.iter().map(|tasks| tasks_text(*tasks));
        rows.any(|row| self.is_asked_for(&row))
    }

    /// A row of calls from `tasks` tasks. `name` is put before their number.
    fn row_of_tasks<'a>(
        &mut self,
        name: &str,
        tasks: u32,
        millis: u64,
        laps: impl FnOnce() -> Vec<Lap<'a>>,
    ) {
        let name = format!("{name}{}", tasks_text(tasks));
        let _one_core = (tasks == 1 && self.is_asked_for(&name)).then(OneCore::pin);
        self.row(&name, millis, laps, |seconds| per_second(tasks, seconds));
    }

    /// Runs each contender for so many milliseconds in each round, if this row is asked for.
    fn row<'a>(
        &mut self,
        name: &str,
        millis: u64,
        laps: impl FnOnce() -> Vec<Lap<'a>>,
        show: impl Fn(f64) -> String,
    ) {
        if !self.is_asked_for(name) {
            return;
        }
        if !std::mem::replace(&mut self.has_head, true) {
            self.print_head();
        }
        let rounds = Rounds::run(&laps(), rounds(), Duration::from_millis(millis));
        rounds.print(name, show);
    }

    fn print_head(&self) {
        let others = self.contenders.iter().skip(1).take(2);
        let ratios = others.map(|other| format!("of {other}"));
        let columns = self.contenders.iter().map(|name| (*name).to_owned());
        let columns: Vec<_> = columns.chain(ratios).collect();
        let rule = " ---: |".repeat(columns.len());
        println!(
            "\n| {} | {} |\n| --- |{rule}",
            self.name,
            columns.join(" | ")
        );
    }
}
