//! The quickstart charges each order once, and says so in a dozen lines.

use std::process::Command;

use idempotence_test_servers::RedisServer;

/// What the example prints, without the times.
fn story(args: &[&str]) -> Vec<String> {
    let run = || {
        let mut quickstart = Command::new(env!("CARGO_BIN_EXE_quickstart"));
        let quickstart = quickstart.args(args).output().unwrap();
        let errors = String::from_utf8(quickstart.stderr.clone()).unwrap();
        (quickstart, errors)
    };
    let (mut quickstart, mut errors) = run();
    // The store of a slow machine may not answer within a second.
    for _ in 0..10 {
        if errors.contains("try again later") {
            (quickstart, errors) = run();
        }
    }
    assert!(quickstart.status.success(), "{errors}");
    let lines = String::from_utf8(quickstart.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| line.split("; ").next().unwrap().to_owned());
    lines.collect()
}

const STORY: [&str; 11] = [
    "Ten clicks at once:",
    "  the bank charges 4990 cents to user 7",
    "  1 ran, 9 waited for it: ten times receipt 1",
    "The answer was lost, so the client tries again:",
    "  the same receipt: Replayed(1)",
    "The same order with another amount:",
    "  refused: payload_mismatch",
    "Another order:",
    "  the bank charges 4990 cents to user 7",
    "  a new receipt: Executed(2)",
    "13 calls, 2 orders, 2 charges. A charge takes 300 ms, the rest is the guard.",
];

#[test]
fn ten_clicks_a_retry_and_another_amount_are_one_charge_in_memory() {
    assert_eq!(story(&[]), STORY);
}

#[test]
fn ten_clicks_a_retry_and_another_amount_are_one_charge_on_redis() {
    let server = RedisServer::start().unwrap();
    for _ in 0..2 {
        assert_eq!(story(&["--store", &server.url()]), STORY); // each run has new orders
    }
}
