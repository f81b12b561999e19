//! Prints the table of `sql.md`: claim and release, and the dedup row in a transaction, compared with the same by hand on
//! the same pool, in tables with ten thousand and two million other rows. All contenders take turns in one process.

use std::time::Duration;

use idempotence_benches::Lap;
use idempotence_benches::on_sql::{OnSql, ROWS, Statements, TASKS};
use idempotence_benches::rounds::{
    Rounds, Values, latency_text, machine, per_second, rounds, tasks_text,
};

fn main() {
    println!("{}", machine("Rust client sqlx 0.9"));
    let on_postgres = OnSql::postgres();
    on(&on_postgres);
    show(on_postgres.plans());
    drop(on_postgres);
    let on_mariadb = OnSql::mariadb();
    on(&on_mariadb);
    show(on_mariadb.plans());
    drop(on_mariadb);
    on(&OnSql::sqlite());
}

fn show(plans: Vec<(String, String)>) {
    for (statement, plan) in plans {
        println!("\n{}\n->\n{plan}", statement.trim());
    }
}

fn on<DB: Statements>(on_sql: &OnSql<DB>) {
    let [few, many] = ROWS;
    println!(
        "\n| {}, {few} rows | attribute | by hand | of by hand | of by hand at {many} rows | of its own at {few} rows |",
        on_sql.version
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for tasks in TASKS {
        row("claim + release", tasks, &on_sql.claims(tasks));
    }
    for tasks in TASKS {
        row(
            "begin, dedup, insert, commit",
            tasks,
            &on_sql.transactions(tasks),
        );
    }
}

/// Prints a row for the throughput and for each percentile.
fn row(name: &str, tasks: u32, laps: &[Lap<'_>]) {
    let rounds = Rounds::run(laps, rounds(), Duration::from_millis(400));
    let name = format!("{name}, {}", tasks_text(tasks));
    print(&name, rounds.seconds(), |seconds| {
        per_second(tasks, seconds)
    });
    for (percentile, values) in rounds.latencies() {
        print(&format!("{name}, {percentile}"), values, latency_text);
    }
}

/// Prints a row: the attribute and by hand with few rows, then both with many rows.
fn print(name: &str, values: &Values, show: impl Fn(f64) -> String) {
    let value = |contender: usize| show(values.median(|round| round[contender]));
    let ratio = |of: usize, to: usize| values.median(|round| round[to] / round[of]);
    println!(
        "| {name} | {} | {} | {:.2} | {:.2} | {:.2} |",
        value(0),
        value(1),
        ratio(0, 1),
        ratio(2, 3),
        ratio(2, 0),
    );
}
