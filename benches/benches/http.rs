//! Prints the tables of HTTP in `README.md`. All contenders take turns, as in `table.rs`.

use std::time::Duration;

use idempotence_benches::Lap;
use idempotence_benches::http::{CONNECTIONS, OnHttp, serve};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, machine, per_second, rounds};

fn main() {
    if serve() {
        return;
    }
    let rounds = rounds();
    let on_http = OnHttp::start();
    println!("{}", machine(&format!("Redis {}", on_http.version)));

    header("first requests");
    for connections in CONNECTIONS {
        row(connections, &on_http.firsts(connections), rounds);
    }
    header("replays of 1 KiB");
    for connections in CONNECTIONS {
        row(connections, &on_http.replays(connections), rounds);
    }
}

fn row(connections: u32, laps: &[Lap<'_>], rounds: usize) {
    let name = match connections {
        1 => "1 connection".to_owned(),
        more => format!("{more} connections"),
    };
    let _one_core = (connections == 1).then(OneCore::pin);
    let rounds = Rounds::run(laps, rounds, Duration::from_millis(300));
    rounds.print(&name, |seconds| per_second(connections, seconds));
}

fn header(name: &str) {
    println!(
        "\n| {name} | layer | by hand | `idempotent` 2.0 | no layer | of by hand | of `idempotent` |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
}
