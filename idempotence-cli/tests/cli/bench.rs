//! `bench`: the store under load.

use std::fs;
use std::path::PathBuf;

use crate::support::{mariadb, postgres, redis, run, sqlite};

fn measures_calls_and_commands_and_leaves_no_key(name: &str, url: &str) {
    let file = format!("{}-{name}.svg", std::process::id());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    let svg = file.display().to_string();
    let args = [
        "bench",
        "--for",
        "400ms",
        "--callers",
        "4",
        "--svg",
        &svg,
        "--yes",
        "--json",
    ];
    let rows = run(url, &args).json();
    for (row, what) in ["call", "by hand"].into_iter().enumerate() {
        assert_eq!(rows[row]["what"], what, "{rows}");
        assert!(rows[row]["calls"].as_u64().unwrap() >= 4, "{rows}");
        assert!(rows[row]["p99_micros"].as_u64().unwrap() > 0, "{rows}");
    }
    let plot = fs::read_to_string(file).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 2, "{plot}");
    assert!(!plot.contains("NaN"), "{plot}");
    let listed = run(url, &["ls", "--json"]).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 0, "{listed}");
}

#[test]
fn bench_measures_calls_and_commands_and_leaves_no_key_on_redis() {
    measures_calls_and_commands_and_leaves_no_key("redis", &redis());
}

#[test]
fn bench_measures_calls_and_commands_and_leaves_no_key_on_databases() {
    for (name, url) in [("postgres", postgres()), ("mariadb", mariadb())] {
        run(&url, &["migrate"]).ok();
        measures_calls_and_commands_and_leaves_no_key(name, &url);
    }
    measures_calls_and_commands_and_leaves_no_key("sqlite", &sqlite());
}

#[test]
fn bench_asks_before_it_loads_a_store() {
    let unasked = run(&redis(), &["bench"]);
    assert_eq!(unasked.code, 4, "{}", unasked.err);
}
