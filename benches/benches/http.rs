//! Prints the tables of HTTP in `README.md`. All contenders take turns, as in `table.rs`.

use std::time::Duration;

use idempotence_benches::Lap;
use idempotence_benches::http::{CONNECTIONS, OnHttp, serve};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, is_asked_for, machine, per_second, rounds};

fn main() {
    if serve() {
        return;
    }
    let rounds = rounds();
    let on_http = OnHttp::start();
    println!("{}", machine(&format!("Redis {}", on_http.version)));

    let [firsts, replays] = ["first requests", "replays of 1 KiB"];
    header(firsts);
    for connections in CONNECTIONS
        .into_iter()
        .filter(|count| has_row(firsts, *count))
    {
        row(connections, &on_http.firsts(connections), rounds);
    }
    header(replays);
    for connections in CONNECTIONS
        .into_iter()
        .filter(|count| has_row(replays, *count))
    {
        row(connections, &on_http.replays(connections), rounds);
    }
}

/// Whether the arguments ask for this row. `replays of 1 KiB, 64 connections` is a name.
fn has_row(table: &str, connections: u32) -> bool {
    is_asked_for(&format!("{table}, {}", name_of(connections)))
}

fn name_of(connections: u32) -> String {
    match connections {
        1 => "1 connection".to_owned(),
        more => format!("{more} connections"),
    }
}

fn row(connections: u32, laps: &[Lap<'_>], rounds: usize) {
    let _one_core = (connections == 1).then(OneCore::pin);
    let rounds = Rounds::run(laps, rounds, Duration::from_millis(300));
    rounds.print(&name_of(connections), |seconds| {
        per_second(connections, seconds)
    });
}

fn header(name: &str) {
    println!(
        "\n| {name} | layer | by hand | `idempotent` 2.0 | no layer | of by hand | of `idempotent` |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
}
