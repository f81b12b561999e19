//! Settings from the environment. This binary starts itself again with other variables.
#![allow(clippy::print_stdout)]

use std::env;
use std::process::Command;

use idempotent_runtime::{Idempotency, MemoryStore, Policy, Settings};

use crate::{File, call, listed, secs};

#[test]
fn a_variable_is_stronger_than_the_file() {
    let file = File::new("[endpoints.\"orders.pay\"]\nttl = \"10m\"\nwait = \"2s\"");
    let line = seen_by_a_child(&[
        ("IDEMPOTENCE__ORDERS_PAY__TTL", "20m"),
        ("IDEMPOTENCE_WAIT", "1s"),
        ("IDEMPOTENCE_SETTINGS", file.path().to_str().unwrap()),
    ]);
    let expected = format!(
        "orders.pay: ttl = 20m (IDEMPOTENCE__ORDERS_PAY__TTL), lease = 30s (default), \
         wait = 2s ({}), on_store_error = refuse (default)",
        file.at(3)
    );
    assert_eq!(line, expected);
}

#[test]
fn without_a_file_the_environment_is_in_force() {
    let line = seen_by_a_child(&[("IDEMPOTENCE_TTL", "20m")]);
    assert!(
        line.starts_with("orders.pay: ttl = 20m (IDEMPOTENCE_TTL), "),
        "{line}"
    );
}

#[test]
fn a_variable_disables_the_guard_of_one_endpoint_or_of_all() {
    for (name, value, begin) in [
        (
            "IDEMPOTENCE_DISABLED",
            "true",
            "orders.pay: disabled = true (IDEMPOTENCE_DISABLED), ttl",
        ),
        (
            "IDEMPOTENCE__ORDERS_PAY__DISABLED",
            "false",
            "orders.pay: disabled = false (IDEMPOTENCE__ORDERS_PAY__DISABLED), ttl",
        ),
        (
            "IDEMPOTENCE_DISABLED",
            "True",
            "IDEMPOTENCE_DISABLED: `True` is neither `true` nor `false`: did you mean `true`?",
        ),
        (
            "IDEMPOTENCE_DISABLED",
            "1",
            "IDEMPOTENCE_DISABLED: `1` is neither `true` nor `false`",
        ),
    ] {
        let line = seen_by_a_child(&[(name, value)]);
        assert!(line.starts_with(begin), "{line}");
    }
}

#[test]
fn an_unknown_variable_is_an_error() {
    let line = seen_by_a_child(&[("IDEMPOTENCE_TLL", "20m")]);
    assert_eq!(
        line,
        "IDEMPOTENCE_TLL: not a setting: did you mean `IDEMPOTENCE_TTL`?"
    );
}

fn seen_by_a_child(variables: &[(&str, &str)]) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "environment::child", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines = output.lines().find_map(|line| line.split_once(SEEN));
    lines.expect(&output).1.to_owned()
}

const SEEN: &str = "seen: ";

#[tokio::test(start_paused = true)]
#[ignore = "runs in a process that another test starts"]
async fn child() {
    let settings = match env::var("IDEMPOTENCE_SETTINGS") {
        Ok(path) => Settings::file(path),
        Err(_) => Settings::env(),
    };
    let handle = Idempotency::builder(MemoryStore::new())
        .settings(settings)
        .build();
    match handle {
        Ok(handle) => {
            let policy = Policy::new(secs(30));
            call(&handle, "orders.pay", policy, 1).await.unwrap();
            println!("{SEEN}{}", listed(&handle, "orders.pay").unwrap());
        }
        Err(error) => println!("{SEEN}{error}"),
    }
}
