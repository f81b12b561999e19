//! `bench`: the store under load.

use crate::support::{mariadb, postgres, redis, run, sqlite};

fn measures_calls_and_commands_and_leaves_no_key(url: &str) {
    let args = [
        "bench",
        "--for",
        "400ms",
        "--callers",
        "4",
        "--yes",
        "--json",
    ];
    let rows = run(url, &args).json();
    for (row, what) in ["call", "by hand"].into_iter().enumerate() {
        assert_eq!(rows[row]["what"], what, "{rows}");
        assert!(rows[row]["calls"].as_u64().unwrap() >= 4, "{rows}");
        assert!(rows[row]["p99_micros"].as_u64().unwrap() > 0, "{rows}");
    }
    let listed = run(url, &["ls", "--json"]).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 0, "{listed}");
}

#[test]
fn bench_measures_calls_and_commands_and_leaves_no_key_on_redis() {
    measures_calls_and_commands_and_leaves_no_key(&redis());
}

#[test]
fn bench_measures_calls_and_commands_and_leaves_no_key_on_databases() {
    for url in [postgres(), mariadb()] {
        run(&url, &["migrate"]).ok();
        measures_calls_and_commands_and_leaves_no_key(&url);
    }
    measures_calls_and_commands_and_leaves_no_key(&sqlite());
}

#[test]
fn bench_asks_before_it_loads_a_store() {
    let unasked = run(&redis(), &["bench"]);
    assert_eq!(unasked.code, 4, "{}", unasked.err);
}
