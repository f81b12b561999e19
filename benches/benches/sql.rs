//! Prints the tables of `sql.md`: claim and release, and the dedup row in a transaction, compared with the same by hand on
//! the same pool, in tables with ten thousand and two million other rows, and the dedup row through each library. All contenders
//! take turns in one process.
//!
//! `-- postgres` runs one of the databases `postgres`, `mariadb` and `sqlite`, `-- libraries` only the table of the libraries, in a minute. With `IDEMPOTENCE_SHORT=1` the run is short. With
//! `IDEMPOTENCE_TIMES=1` it prints only where the processor time goes.

use std::time::Duration;

use idempotence::sql::sqlx::Postgres;
use idempotence_benches::on_sql::{Contest, OnSql, ROWS, Statements, TASKS, TRANSACTIONS};
use idempotence_benches::rounds::{
    Rounds, Values, is_asked_for, latency_text, machine, per_second, rounds, tasks_text,
};

fn main() {
    println!("{}", machine("Rust client sqlx 0.9"));
    if is_asked_for("postgres") {
        let on_postgres = OnSql::postgres();
        on(&on_postgres);
        if !is_asked_for_times() {
            through_libraries(&on_postgres);
        }
        show(on_postgres.plans());
    }
    if is_asked_for("mariadb") {
        let on_mariadb = OnSql::mariadb();
        on(&on_mariadb);
        show(on_mariadb.plans());
    }
    if is_asked_for("sqlite") {
        on(&OnSql::sqlite());
    }
    if std::env::args().any(|arg| arg == "libraries") {
        through_libraries(&OnSql::postgres_with_few_rows());
    }
}

/// Whether only the table of processor time is asked for.
fn is_asked_for_times() -> bool {
    std::env::var_os("IDEMPOTENCE_TIMES").is_some()
}

fn show(plans: Vec<(String, String)>) {
    for (statement, plan) in plans {
        println!("\n{}\n->\n{plan}", statement.trim());
    }
}

fn on<DB: Statements>(on_sql: &OnSql<DB>) {
    if !is_asked_for_times() {
        compare(on_sql);
    }
    println!(
        "\n| microseconds of processor time per call at one task: client, server | attribute | by hand |"
    );
    println!("| --- | ---: | ---: |");
    let contests = [
        ("claim + release", on_sql.claims(1)),
        ("transaction", on_sql.transactions(1)),
    ];
    for (name, contest) in contests {
        print!("| {}, {name} |", on_sql.version);
        for lap in &contest.few[..2] {
            let [client, server] = OnSql::<DB>::processor_time(1, lap);
            print!(" {client:.0}, {server:.0} |");
        }
        println!();
    }
}

fn compare<DB: Statements>(on_sql: &OnSql<DB>) {
    let [few, many] = ROWS;
    println!(
        "\n| {}, {few} rows | attribute | by hand | `batch = false` | attribute, settle in background | of by hand | of `batch = false` | \
         of by hand at {many} rows | of its own at {few} rows |",
        on_sql.version
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for tasks in TASKS {
        row("claim + release", tasks, &on_sql.claims(tasks));
    }
    for tasks in TRANSACTIONS {
        row(
            "begin, dedup, insert, commit",
            tasks,
            &on_sql.transactions(tasks),
        );
    }
    println!(
        "\n| commits per second, per call; connections in use | attribute | by hand | `batch = false` | attribute, settle in background |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for tasks in TASKS {
        print!("| claim + release, {} |", tasks_text(tasks));
        for lap in &on_sql.claims(tasks).few {
            let usage = on_sql.usage(tasks, lap);
            if let Some([per_second, per_call]) = usage.writes {
                print!(" {per_second:.0}/s, {per_call:.2};");
            }
            print!(" {:.1} |", usage.connections);
        }
        println!();
    }
}

/// Prints the table of the libraries.
fn through_libraries(on_sql: &OnSql<Postgres>) {
    let version = &on_sql.version;
    println!("\n| {version}: begin, dedup, insert, commit | attribute | by hand | of by hand |");
    println!("| --- | ---: | ---: | ---: |");
    for tasks in TRANSACTIONS {
        for (library, laps) in on_sql.libraries(tasks) {
            let rounds = Rounds::run(&laps, rounds().min(9), Duration::from_millis(150));
            rounds.print(&format!("{library}, {}", tasks_text(tasks)), |seconds| {
                per_second(tasks, seconds)
            });
        }
    }
}

/// Prints a row for the throughput and for each percentile.
fn row(name: &str, tasks: u32, contest: &Contest<'_>) {
    let laps = contest.few.iter().chain(&contest.many);
    let rounds = Rounds::run(laps, rounds().min(9), Duration::from_millis(150));
    let name = format!("{name}, {}", tasks_text(tasks));
    let print = |name: &str, values: &Values, show: &dyn Fn(f64) -> String| {
        print(name, contest, values, show);
    };
    print(&name, rounds.seconds(), &|seconds| {
        per_second(tasks, seconds)
    });
    for (percentile, values) in rounds.latencies() {
        print(&format!("{name}, {percentile}"), values, &latency_text);
    }
}

/// Prints a row: the contenders with few rows, then ratios.
fn print(name: &str, contest: &Contest<'_>, values: &Values, show: &dyn Fn(f64) -> String) {
    let many = contest.few.len();
    let contenders = many + contest.many.len();
    let value = |contender: usize| show(values.median(|round| round[contender]));
    let ratio = |of: usize, to: usize| {
        let is_there = of < contenders && to < contenders;
        let ratio = is_there.then(|| values.median(|round| round[to] / round[of]));
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let [alone, of_alone, in_background] = if many > 3 {
        [value(2), ratio(0, 2), value(3)]
    } else {
        ["–"; 3].map(str::to_owned)
    };
    println!(
        "| {name} | {} | {} | {alone} | {in_background} | {} | {of_alone} | {} | {} |",
        value(0),
        value(1),
        ratio(0, 1),
        ratio(many, many + 1),
        ratio(many, 0),
    );
}
