//! The dashboard and the alarms name only metrics and outcomes that exist, and each alarm of the runbooks is there.

use std::collections::BTreeSet;

use idempotence::EventKind;
use serde_json::Value;

use super::table;

const RULES: &str = include_str!("../../contrib/prometheus/idempotence.rules.yml");
const DASHBOARD: &str = include_str!("../../contrib/grafana/idempotence.json");
const OBSERVER: &str = include_str!("../../idempotent-runtime/src/observe/observer.rs");
const RUNBOOKS: &str = include_str!("../../docs/guide/runbooks.md");

#[test]
fn the_alarms_and_the_dashboard_name_metrics_and_outcomes_that_are_emitted() {
    let expressions = expressions_of_dashboard();
    assert!(expressions.len() > 10, "{expressions:?}");
    let expressions = expressions.iter().map(String::as_str);
    for text in expressions.chain([RULES]) {
        let named = selectors(text);
        assert!(!named.is_empty(), "{text}");
        for (metric, outcomes) in named {
            assert_eq!(mistake(&metric, &outcomes), None, "{text}");
        }
    }
}

/// The control of the test above.
#[test]
fn a_metric_or_an_outcome_that_is_not_emitted_is_found() {
    for wrong in [
        "idempotence_call_total{outcome=\"executed\"}",
        "idempotence_calls_total{outcome=\"success\"}",
        "idempotence_calls_total{outcome=~\"executed|overrun\"}",
        "idempotence:events:increase5m{outcome=\"executed\"}",
        "idempotence_operations_bucket",
    ] {
        let named = selectors(wrong);
        assert_eq!(named.len(), 1, "{wrong}");
        assert!(mistake(&named[0].0, &named[0].1).is_some(), "{wrong}");
    }
}

#[test]
fn each_alarm_of_the_runbooks_is_a_rule_for_prometheus() {
    let rules = selectors(RULES).into_iter();
    let rules: BTreeSet<String> = rules.flat_map(|(_, outcomes)| outcomes).collect();
    let rows = table(RUNBOOKS, "alarm");
    let alarms = rows.iter().skip(2).filter_map(|row| row.split('|').nth(1));
    let alarms: Vec<&str> = alarms
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(alarms.len() > 12, "{alarms:?}");
    for alarm in alarms {
        assert!(rules.contains(alarm), "no rule for `{alarm}`");
    }
}

#[test]
fn the_panels_of_the_dashboard_have_ids_and_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels
        .iter()
        .filter_map(|panel| panel["id"].as_u64())
        .collect();
    assert_eq!(ids.len(), panels.len());
    let mut cells = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64());
        let [x, y, w, h] = [x, y, w, h].map(|side| side.expect("a number"));
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{panel}");
        }
    }
}

fn expressions_of_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let targets = targets.flatten();
    let expression = |target: &Value| target["expr"].as_str().expect("text").to_owned();
    targets.map(expression).collect()
}

/// Each metric of a text, with the outcomes that it is asked for.
fn selectors(text: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for (at, _) in text.match_indices("idempotence") {
        let rest = &text[at..];
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let starts_a_word = !text[..at].ends_with(|c| is_name(c) || c == '/' || c == '`');
        if !starts_a_word || !name.contains(['_', ':']) {
            continue;
        }
        let labels = rest[name.len()..].strip_prefix('{');
        let labels = labels.and_then(|labels| Some(labels.split_once('}')?.0));
        let outcomes = labels.and_then(|labels| labels.split_once("outcome="));
        let outcomes = outcomes.map_or("", |(_, outcomes)| outcomes.trim_start_matches('~'));
        let outcomes = outcomes
            .trim_matches('"')
            .split('|')
            .filter(|word| !word.is_empty());
        found.push((name.to_owned(), outcomes.map(str::to_owned).collect()));
    }
    found
}

/// What is wrong with a metric and its outcomes.
fn mistake(metric: &str, outcomes: &[String]) -> Option<String> {
    let recorded = metric.strip_prefix("idempotence:");
    let recorded = recorded.and_then(|name| name.strip_suffix(":increase5m"));
    let emitted = match recorded {
        Some(kind) => format!("idempotence_{kind}_total"),
        None => metric.trim_end_matches("_bucket").to_owned(),
    };
    if !OBSERVER.contains(&format!("/// | `{emitted}` |")) {
        return Some(format!("no metric `{metric}`"));
    }
    let belongs = |kind: &EventKind| match emitted.split('_').nth(1) {
        Some("call" | "calls") => kind.is_end(),
        Some("operation" | "operations") => kind.is_operation(),
        _ => !kind.is_end() && !kind.is_operation(),
    };
    let emits = |word: &String| {
        let mut kinds = EventKind::ALL.iter().filter(|kind| belongs(kind));
        kinds.any(|kind| kind.as_str() == word)
    };
    let wrong = outcomes.iter().find(|word| !emits(word));
    wrong.map(|word| format!("`{emitted}` has no outcome `{word}`"))
}
