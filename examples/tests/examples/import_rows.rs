//! The import counts each row once, in a loop and with `run_each`.

use std::process::Command;

use idempotence_test_servers::RedisServer;

const BIN: &str = env!("CARGO_BIN_EXE_import_rows");

/// What the example prints, without the times.
fn import(args: &[&str]) -> Vec<String> {
    let output = Command::new(BIN).args(args).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "no row may fail");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| match line.rsplit_once("; ") {
        Some((counts, _time)) => counts.to_owned(),
        None => line.to_owned(),
    });
    lines.collect()
}

fn assert_counts(lines: &[String], counts: &str) {
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, name) in lines.iter().zip(["loop", "run_each"]) {
        assert_eq!(*line, format!("{name}: {counts}"));
    }
}

#[test]
fn each_of_ten_thousand_rows_is_imported_once_on_redis() {
    let server = RedisServer::start().unwrap();
    let lines = import(&["--store", &server.url()]);
    assert_counts(
        &lines,
        "9900 imported, 100 duplicates, 0 failed; 9900 rows in the table, 0 of them twice",
    );
}

#[test]
fn a_small_import_counts_its_rows_in_memory() {
    let lines = import(&["--rows", "200", "--limit", "7"]);
    assert_counts(
        &lines,
        "198 imported, 2 duplicates, 0 failed; 198 rows in the table, 0 of them twice",
    );
}
