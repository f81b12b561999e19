use std::time::Duration;

use super::*;

fn parsed(text: &str) -> (SourceSettings, Vec<String>) {
    let mut problems = Vec::new();
    let layer = parse(Path::new("a.toml"), text, &mut problems);
    (layer, problems)
}

#[test]
fn settings_are_read_with_their_lines() {
    let (layer, problems) = parsed(
        "[all]\nttl = \"5m\"\n\n[endpoints.\"orders.pay\"]\nlease = \"10s\"\non_store_error = \"run\"\n",
    );
    assert_eq!(problems, [""; 0]);
    let ttl = layer.all.ttl.unwrap();
    assert_eq!(ttl.value, Duration::from_mins(5));
    assert_eq!(ttl.origin.to_string(), "a.toml:2");
    let pay = &layer.endpoints["orders.pay"];
    assert_eq!(pay.origin.to_string(), "a.toml:4");
    let lease = pay.overrides.lease.as_ref().unwrap();
    assert_eq!(lease.to_string(), "10s (a.toml:5)");
    let on_store_error = pay.overrides.on_store_error.as_ref().unwrap();
    assert_eq!(on_store_error.to_string(), "run (a.toml:6)");
}

#[test]
fn every_mistake_is_reported_with_its_line_and_what_to_write() {
    let list = list();
    let unknown = |name| format!("2: unknown setting `{name}`: the settings are {list}");
    for (text, problem) in [
        (
            "[endpoint.\"a\"]",
            "1: unknown table `endpoint`: did you mean `endpoints`?",
        ),
        (
            "\n[queue]",
            "2: unknown table `queue`: the tables are `[all]` and `[endpoints.\"…\"]`",
        ),
        (
            "ttl = \"1m\"",
            "1: `ttl` is in no table: write it below `[all]` or `[endpoints.\"…\"]`",
        ),
        ("all = 1", "1: `all` is a table: write `[all]`"),
        ("[[all]]", "1: `all` is a table: write `[all]`"),
        (
            "[all]\ntll = \"1m\"",
            "2: unknown setting `tll`: did you mean `ttl`?",
        ),
        ("[all]\nrelease = true", &unknown("release")),
        (
            "[all]\nttl = 30",
            "2: `ttl` in `[all]`: a duration needs a unit: write `\"30s\"`",
        ),
        (
            "[all]\nttl = -30",
            "2: `ttl` in `[all]` must be a duration in quotes, as in `\"30s\"` or `\"1h30m\"`",
        ),
        (
            "[all]\nwait = true",
            "2: `wait` in `[all]` must be a duration in quotes, as in `\"30s\"` or `\"1h30m\"`",
        ),
        (
            "[all]\nttl = \"30\"",
            "2: `ttl` in `[all]`: a duration needs a unit: write `30s`",
        ),
        (
            "[all]\nlease = \"0s\"",
            "2: `lease` in `[all]`: `0s` is too short: write a duration between `1ms` and `36500d`",
        ),
        (
            "[endpoints.\"orders.pay\"]\nttl = \"0m\"",
            "2: `ttl` of `orders.pay`: `0m` is too short: write a duration between `1ms` and `36500d`",
        ),
        ("[all]\nreplay_err = true", &unknown("replay_err")),
        ("[all]\ncrate = \"shop\"", &unknown("crate")),
        (
            "[all]\nttl = \"101d1000000h\"",
            "2: `ttl` in `[all]`: `101d1000000h` is too long: write at most `36500d`, which is 100 years",
        ),
        ("[all]\ncolour = true", &unknown("colour")),
        (
            "[all]\non_store_error = \"rum\"",
            "2: `on_store_error` in `[all]`: `rum` is neither `refuse` nor `run`: did you mean `run`?",
        ),
        (
            "[all]\non_store_error = false",
            "2: `on_store_error` in `[all]` must be a word in quotes: write `\"refuse\"` or `\"run\"`",
        ),
        (
            "[all]\nsettle = true",
            "2: `settle` in `[all]` must be a word in quotes: write `\"await\"` or `\"background\"`",
        ),
        (
            "[endpoints.shop.orders.pay]\nttl = \"1m\"",
            "1: the name of an endpoint must be in quotes: write `[endpoints.\"shop.orders.pay\"]`",
        ),
        (
            "[endpoints]\nttl = \"1m\"",
            "2: `ttl` is not an endpoint: write a table for each endpoint, as in `[endpoints.\"orders.pay\"]`",
        ),
        (
            "[endpoints.\"shop::pay\"]",
            "1: `shop::pay` cannot name an endpoint: write dots instead of `::`, as in `shop.pay`",
        ),
        (
            "[endpoints.\"\"]",
            "1: `` cannot name an endpoint: it is empty",
        ),
        (
            "[endpoints.\"a\\nb\"]",
            "1: `a\\nb` cannot name an endpoint: no name of an endpoint has the character '\\n'",
        ),
    ] {
        let (_, problems) = parsed(text);
        let problems: Vec<_> = problems.iter().map(|line| without_column(line)).collect();
        assert_eq!(problems, [problem]);
    }
}

/// The line and the text of a mistake in `a.toml`.
fn without_column(problem: &str) -> String {
    let [_, line, _, what] = problem.splitn(4, ':').collect::<Vec<_>>()[..] else {
        panic!("{problem}");
    };
    format!("{line}:{what}")
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_their_lines() {
    let text = "[endpoints.\"b\"]\nwiat = \"1s\"\nttl = ten\n[endpoints.\"a\"]\nlease = 5\n[all\n";
    let (_, problems) = parsed(text);
    assert_eq!(
        problems,
        [
            "a.toml:2:1: unknown setting `wiat`: did you mean `wait`?",
            "a.toml:3:7: this is not TOML: invalid boolean, expected `true`",
            "a.toml:5:1: `lease` of `a`: a duration needs a unit: write `\"5s\"`",
            "a.toml:6:5: this is not TOML: unclosed table, expected `]`",
        ]
    );
}

#[test]
fn a_mistake_has_its_column_in_characters() {
    for (text, place) in [
        ("[all]\n  tll = \"1m\"", "a.toml:2:3: "),
        (
            "endpoints = {\"é\" = {ttl = \"1m\", wiat = \"1s\"}}",
            "a.toml:1:33: ",
        ),
    ] {
        let (_, problems) = parsed(text);
        assert!(problems[0].starts_with(place), "{problems:?}");
    }
}
