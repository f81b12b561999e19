//! The stores, and how each failure ends.

use std::process::Stdio;
use std::time::Duration;

use idempotence_test_servers::RedisCluster;

use crate::support::{Program, command, empty_sqlite, mariadb, postgres, run, sqlite};

fn works(url: &str) {
    run(url, &["migrate"]).ok();
    let program = Program::on(url);
    (1..=3).for_each(|id| program.pay(id));
    let digits = program.die_in(url, 7, Duration::from_mins(5));
    let listed = run(url, &["ls", "--json"]).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 4, "{listed}");
    run(url, &["release", "orders.pay", &digits, "--force", "--yes"]).ok();
    assert_eq!(run(url, &["show", "orders.pay", &digits]).code, 3);
    let report = run(url, &["doctor", "--json"]);
    assert!(
        report.out.starts_with("{\"worst\":\""),
        "{}{}",
        report.out,
        report.err
    );
    assert_eq!(run(url, &["purge", "--json"]).json()["removed"], 0);
}

#[test]
fn it_works_on_postgres() {
    works(&postgres());
}

#[test]
fn it_works_on_mariadb() {
    works(&mariadb());
}

#[test]
fn it_lists_the_keys_of_every_master_of_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let url = cluster.url();
    let program = Program::on(&url);
    (0..30).for_each(|id| program.pay(id));
    let listed = run(&url, &["ls", "--limit", "1000", "--json"]).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 30);
    assert_eq!(listed["next"], serde_json::Value::Null);
    let digits = program.die_in(&url, 99, Duration::from_mins(5));
    run(
        &url,
        &["release", "orders.pay", &digits, "--force", "--yes"],
    )
    .ok();
}

#[test]
fn a_store_that_cannot_be_reached_is_a_failure_without_its_password() {
    let url = "redis://user:s3cret@127.0.0.1:1/";
    let failed = run(url, &["ls"]);
    assert_eq!(failed.code, 1);
    assert!(failed.err.starts_with("error: "), "{}", failed.err);
    assert!(!failed.err.contains("s3cret"), "{}", failed.err);
    let failed = run(url, &["ls", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&failed.err).unwrap();
    assert_eq!(error["code"], 1);
}

#[test]
fn wrong_usage_has_the_exit_code_2() {
    let url = sqlite();
    for args in [
        &["lst"][..],
        &["show", "orders.pay"],
        &["show", "orders.pay", "9e107d9d", "--key", "7"],
        &["show", "orders.pay", "xyz"],
        &["show", "no name", "9e107d9d"],
        &["ls", "--limit", "0"],
        &["ls", "--prefix", "a#b"],
    ] {
        let ran = run(&url, args);
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }
    for url in ["", "memory:", "redis://127.0.0.1:1/"] {
        assert_eq!(run(url, &["purge"]).code, 2, "{url}");
    }
    assert_eq!(run("sqlite:/nowhere/at/all.db", &["ls"]).code, 1);
}

#[test]
fn the_variable_of_the_program_names_the_store_too() {
    let url = sqlite();
    let mut ls = command("", &["ls"]);
    ls.env_remove("IDEMPOTENCE_STORE")
        .env("IDEMPOTENCE_URL", url);
    assert!(ls.status().unwrap().success());
}

/// Neither a command that reads nor one that removes makes tables.
fn tables_are_only_made_by_migrate(url: &str) {
    for args in [
        &["ls"][..],
        &["show", "orders.pay", "9e107d9d"],
        &["purge"],
        &["doctor"],
        &["ls", "--json"],
    ] {
        let ran = run(url, args);
        assert_eq!(ran.code, 1, "{args:?}: {}{}", ran.out, ran.err);
        let text = format!("{}{}", ran.out, ran.err);
        assert!(
            text.contains("run `idempotence migrate`"),
            "{args:?}: {text}"
        );
    }
    run(url, &["migrate"]).ok();
    run(url, &["ls"]).ok();
}

#[test]
fn tables_are_only_made_by_migrate_on_postgres() {
    tables_are_only_made_by_migrate(&postgres());
}

#[test]
fn tables_are_only_made_by_migrate_on_mariadb() {
    tables_are_only_made_by_migrate(&mariadb());
}

#[test]
fn tables_are_only_made_by_migrate_on_sqlite() {
    tables_are_only_made_by_migrate(&empty_sqlite());
}

#[test]
fn a_problem_has_its_exit_code_although_nobody_reads_the_output() {
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let mut doctor = command(&empty_sqlite(), args);
        let mut doctor = doctor
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The pipe is closed before the command writes.
        drop(doctor.stdout.take());
        assert_eq!(doctor.wait().unwrap().code(), Some(1), "{args:?}");
    }
}
