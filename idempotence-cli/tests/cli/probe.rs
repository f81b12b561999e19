//! `probe`: services that keep all rules, and services that break some.

mod broken;
mod layer;
mod shop;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::{Ran, command};
use broken::{Fault, by_hand};
use layer::{Convention, actix, axum, unguarded};

const ORDER: &str = r#"{"item":"tea {{unique}}"}"#;

/// Runs the command against a service, with everything that it can test.
fn probe(address: SocketAddr, more: &[&str]) -> Ran {
    let url = |path: &str| format!("http://{address}{path}");
    let (orders, carts, count) = (url("/orders"), url("/carts"), url("/count"));
    let mut args = vec!["probe", &orders, "--body", ORDER, "--yes"];
    args.extend(["-H", "Authorization: alice", "--other-auth", "bob"]);
    args.extend([
        "--other-url",
        &carts,
        "--failing-body",
        r#"{"item":"fail {{unique}}"}"#,
    ]);
    args.extend(["--rate", "1000"]);
    args.extend(["--effect-url", &count]);
    args.extend(more);
    Ran::of(command("", &args).output().unwrap())
}

/// The ids of the rules with this result.
fn ids(report: &Value, result: &str) -> BTreeSet<String> {
    let rules = report["rules"].as_array().unwrap().iter();
    let with_result = rules.filter(|rule| rule["result"] == result);
    with_result
        .map(|rule| rule["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The rules that need two requests in the time of one order.
const MEETING: [&str; 3] = ["hang-up-", "storm-", "conflict-"];

/// The report on a service that breaks these rules. On a slow machine the work ends before the client closes its connection, or before
/// an equal request comes, and then the service is probed again, at most 20 times.
#[track_caller]
fn report(address: SocketAddr, more: &[&str], expected: &BTreeSet<String>) -> (Ran, Value) {
    let have_met = |ran: &Ran| {
        let report = serde_json::from_str(&ran.out).expect(&ran.err);
        let missing = expected - &ids(&report, "failed");
        let untested = &missing | &ids(&report, "skipped");
        let needs_two = |rule: &String| MEETING.iter().any(|begin| rule.starts_with(begin));
        !untested.iter().any(needs_two)
    };
    let ran = probe_until(have_met, || probe(address, more));
    let report = serde_json::from_str(&ran.out).expect(&ran.err);
    (ran, report)
}

/// Probes until the requests have met, at most 20 times.
fn probe_until(have_met: impl Fn(&Ran) -> bool, probe: impl Fn() -> Ran) -> Ran {
    for _ in 1..20 {
        let ran = probe();
        if have_met(&ran) {
            return ran;
        }
    }
    probe()
}

#[track_caller]
fn keeps_all_rules(address: SocketAddr, profile: &str) {
    let arguments = ["--profile", profile, "--json"];
    let (_, report) = report(address, &arguments, &BTreeSet::new());
    assert_eq!(report["profile"], profile);
    assert_eq!(
        (&report["failed"], &report["skipped"]),
        (&0.into(), &0.into()),
        "{report:#}"
    );
    assert!(report["passed"].as_u64().unwrap() >= 14, "{report:#}");
}

#[test]
fn the_layer_keeps_all_rules_of_each_convention_in_axum() {
    for (profile, convention) in Convention::ALL {
        keeps_all_rules(axum(convention), profile);
    }
}

#[test]
fn the_layer_keeps_all_rules_in_actix() {
    keeps_all_rules(actix(), "ietf");
}

#[test]
fn a_service_breaks_exactly_the_rules_of_its_faults() {
    let mut cases = vec![(None, &[][..])];
    cases.extend(
        Fault::CASES
            .iter()
            .map(|(fault, rules)| (Some(*fault), *rules)),
    );
    let cases = Mutex::new(cases.into_iter());
    let found = Mutex::new(Vec::new());
    let never_broken = Mutex::new(None::<BTreeSet<String>>);
    // The services wait most of the time.
    std::thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                while let Some((fault, rules)) = { cases.lock().unwrap().next() } {
                    let expected: BTreeSet<_> = rules.iter().map(ToString::to_string).collect();
                    let (ran, report) = report(by_hand(fault), &["--json"], &expected);
                    let broken = ids(&report, "failed");
                    let others = &ids(&report, "passed") | &ids(&report, "skipped");
                    let mut never = never_broken.lock().unwrap();
                    *never = Some(match never.take() {
                        Some(never) => never.intersection(&others).cloned().collect(),
                        None => others,
                    });
                    drop(never);
                    let is_must = |rule: &Value| rule["result"] == "failed" && rule["level"] == "must";
                    let has_must = report["rules"].as_array().unwrap().iter().any(is_must);
                    if broken != expected || ran.code != if has_must { 4 } else { 0 } {
                        found.lock().unwrap().push(format!(
                            "{fault:?}: {broken:?} instead of {expected:?}, exit code {}: {report:#}",
                            ran.code
                        ));
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Each rule can fail.
    let never_broken = never_broken.into_inner().unwrap();
    assert_eq!(never_broken, Some(BTreeSet::new()));
}

#[test]
fn a_service_of_another_convention_breaks_the_rules_that_differ() {
    let ietf = axum(Convention::Ietf);
    for (address, profile, rules) in [
        (ietf, "acp", &["key-echoed", "replay-mark"][..]),
        (
            ietf,
            "stripe",
            &["failure-kept", "mismatch-status", "replay-mark"],
        ),
        (
            unguarded(),
            "repeatability",
            &[
                "hang-up-runs-once",
                "key-repeated",
                "key-undated",
                "mismatch-refused",
                "replay-body",
                "replay-headers",
                "replay-runs-once",
                "result-header",
                "storm-runs-once",
            ],
        ),
    ] {
        let expected: BTreeSet<_> = rules.iter().map(ToString::to_string).collect();
        let (_, report) = report(address, &["--profile", profile, "--json"], &expected);
        assert_eq!(ids(&report, "failed"), expected, "{profile}: {report:#}");
    }
}

#[test]
fn secrets_are_read_from_files_and_are_in_no_report() {
    let address = by_hand(None);
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("{}-headers.txt", std::process::id()));
    std::fs::write(&file, "Authorization: Bearer s3cret\nX-Other: a:b\n").unwrap();
    let (file, url) = (
        format!("@{}", file.display()),
        format!("http://user:s3cret@{address}/orders?key=s3cret"),
    );
    let args = [
        "probe", &url, "--body", ORDER, "--yes", "--json", "--rate", "1000", "-H", &file,
    ];
    let ran = Ran::of(command("", &args).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        !format!("{}{}", ran.out, ran.err).contains("s3cret"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn the_report_has_a_form_for_people_for_pages_and_for_pipelines() {
    let address = by_hand(Some(Fault::KeyWithoutUser));
    let table = probe_until(
        |table| table.out.contains(" 0 skipped"),
        || probe(address, &[]),
    );
    assert_eq!(table.code, 4, "{}", table.err);
    assert!(table.out.starts_with("RULE "), "{}", table.out);
    assert!(
        table
            .out
            .contains("\nother-user: Make the user a part of the stored key."),
        "{}",
        table.out
    );
    assert!(
        table
            .out
            .contains("1 failed (1 of them must be kept), 0 skipped"),
        "{}",
        table.out
    );

    let junit = probe_until(
        |junit| junit.out.contains(" skipped=\"0\""),
        || probe(address, &["--format", "junit"]),
    );
    assert_eq!(junit.code, 4);
    assert!(
        junit.out.contains(" failures=\"1\" skipped=\"0\">"),
        "{}",
        junit.out
    );
    assert!(
        junit
            .out
            .contains("<testcase classname=\"must\" name=\"other-user\"><failure message="),
        "{}",
        junit.out
    );
}

#[test]
fn without_an_effect_runs_are_told_apart_by_their_responses() {
    let url = format!("http://{}/orders", by_hand(Some(Fault::CheckThenAct)));
    let args = [
        "probe", &url, "--body", ORDER, "--yes", "--json", "--rate", "1000",
    ];
    let with_user = [&args[..], &["-H", "Authorization: alice"]].concat();
    let ran = probe_until(
        |ran| serde_json::from_str::<Value>(&ran.out).expect(&ran.err)["failed"] == 1,
        || Ran::of(command("", &with_user).output().unwrap()),
    );
    let report: Value = serde_json::from_str(&ran.out).expect(&ran.err);
    assert_eq!(
        ids(&report, "failed"),
        BTreeSet::from(["storm-runs-once".to_owned()])
    );
    let skipped = [
        "conflict-problem",
        "conflict-retry-after",
        "failure-free",
        "other-path",
        "other-user",
    ];
    assert_eq!(
        ids(&report, "skipped"),
        BTreeSet::from(skipped.map(str::to_owned))
    );
}

#[test]
fn nothing_is_sent_without_a_yes_beyond_the_limit_or_after_a_failure() {
    let address = by_hand(None);
    let url = format!("http://{address}/orders");
    let unasked = Ran::of(command("", &["probe", &url]).output().unwrap());
    assert_eq!(unasked.code, 4, "{}", unasked.err);
    let limited = Ran::of(
        command("", &["probe", &url, "--yes", "--limit", "5"])
            .output()
            .unwrap(),
    );
    assert_eq!(limited.code, 2, "{}", limited.err);
    assert!(limited.err.contains("and --limit is 5"), "{}", limited.err);
    // Without a user each request is refused.
    let failing = Ran::of(command("", &["probe", &url, "--yes"]).output().unwrap());
    assert_eq!(failing.code, 1, "{}", failing.err);
    assert!(
        failing.err.contains("the first request must succeed"),
        "{}",
        failing.err
    );
    for args in [
        &["probe", "ftp://h/"][..],
        &["probe", &url, "-H", "no header"],
        &["probe", &url, "--method", "a b"],
        &["probe", &url, "--body", "@/nowhere"],
        &[
            "probe",
            &url,
            "--effect-url",
            &url,
            "--effect-json",
            "count",
        ],
    ] {
        let ran = Ran::of(command("", args).output().unwrap());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_service_that_limits_requests_is_not_judged() {
    let url = format!("http://{}/orders", shop::limited(4));
    let args = ["probe", &url, "--body", ORDER, "--yes", "--optional-key"];
    let ran = Ran::of(command("", &args).output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("use a smaller --rate"), "{}", ran.err);
}
