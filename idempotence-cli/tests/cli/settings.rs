//! `config`: settings of a file and of the environment.

use std::fs;
use std::path::PathBuf;

use crate::support::{Ran, command, run};

/// A settings file that no other test uses.
fn file(name: &str, text: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_mistake_in_a_file_has_its_line_and_its_column() {
    let file = file("mistakes.toml", "[all]\n  tll = \"1m\"\nttl = 5\n");
    let checked = run("", &["config", "check", &file]);
    assert_eq!(checked.code, 2);
    let expected = format!(
        "error: {file}:2:3: unknown setting `tll`: did you mean `ttl`?\n\
         {file}:3:1: `ttl` in `[all]`: a duration needs a unit: write `\"5s\"`\n"
    );
    assert_eq!(checked.err, expected);
}

#[test]
fn a_file_without_a_mistake_is_fine() {
    let file = file("fine.toml", "[endpoints.\"orders.pay\"]\nttl = \"1m\"\n");
    let expected = "no mistakes in the names and values of settings\n\
                    not checked: whether the endpoints exist, and whether their options in code allow the settings. \
                    The program checks this when it starts, and at a reload\n";
    assert_eq!(run("", &["config", "check", &file]).ok(), expected);
    let json = run("", &["config", "check", &file, "--json"]).json();
    assert_eq!(json["not_checked"].as_array().unwrap().len(), 1);
    let missing = run("", &["config", "check", "/nowhere/a.toml"]);
    assert_eq!(missing.code, 2);
}

#[test]
fn each_value_is_explained_with_its_origin() {
    let file = file(
        "origins.toml",
        "[all]\nwait = \"1s\"\n[endpoints.\"orders.pay\"]\nttl = \"1m\"\n",
    );
    let args = ["config", "explain", "orders.pay", "--file", &file];
    let mut explain = command("", &args);
    explain.env("IDEMPOTENCE__ORDERS_PAY__WAIT", "2s");
    let text = Ran::of(explain.output().unwrap()).ok();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let origin = format!("{file}:4");
    let expected = [
        ["SETTING", "VALUE", "ORIGIN"],
        ["ttl", "1m", &origin],
        ["wait", "2s", "IDEMPOTENCE__ORDERS_PAY__WAIT"],
    ];
    assert_eq!(rows, expected);
    let json = Ran::of(explain.arg("--json").output().unwrap()).json();
    assert_eq!(json["settings"][0]["value"], "1m");
}

#[test]
fn settings_accept_the_variables_of_the_command_and_refuse_others() {
    let args = ["config", "explain", "orders.pay"];
    let known = ["STORE", "URL", "PREFIX", "DIGEST", "SECRET"];
    let mut explain = command("", &args);
    explain.envs(known.map(|name| (format!("IDEMPOTENCE_{name}"), "md5")));
    Ran::of(explain.output().unwrap()).ok();
    let refused = Ran::of(explain.env("IDEMPOTENCE_STORES", "x").output().unwrap());
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .starts_with("error: IDEMPOTENCE_STORES: not a setting"),
        "{}",
        refused.err
    );
}
