//! `config`: checks and explains settings.

use std::path::Path;

use idempotence::{EndpointInfo, Settings, SetupError};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::Output;

pub(crate) fn check(file: &Path, output: &mut Output) -> Result<(), Failure> {
    Settings::file(file).check().map_err(mistakes)?;
    if output.is_json() {
        return output.json(&serde_json::json!({ "mistakes": [] }));
    }
    output.line("no mistakes")
}

pub(crate) fn explain(
    endpoint: &str,
    file: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let settings = file.map_or_else(Settings::env, Settings::file);
    let info = settings.of_endpoint(endpoint).map_err(mistakes)?;
    let rows = rows(&info);
    if output.is_json() {
        let settings = rows.iter().map(|[name, value, origin]| ExplainedSetting {
            name,
            value,
            origin,
        });
        let settings = settings.collect();
        return output.json(&Explained { endpoint, settings });
    }
    if rows.is_empty() {
        return output.line("no settings: its attribute and the defaults decide");
    }
    output.table(["SETTING", "VALUE", "ORIGIN"], &rows)
}

#[derive(Serialize)]
struct Explained<'a> {
    endpoint: &'a str,
    settings: Vec<ExplainedSetting<'a>>,
}

#[derive(Serialize)]
struct ExplainedSetting<'a> {
    name: &'a str,
    value: &'a str,
    origin: &'a str,
}

fn rows(info: &EndpointInfo) -> Vec<[String; 3]> {
    let durations = [
        ("ttl", info.ttl()),
        ("lease", info.lease()),
        ("at_least", info.at_least()),
        ("wait", info.wait()),
    ];
    let durations = durations.map(|(name, setting)| (name, setting.map(ToString::to_string)));
    let others = [
        ("permits", info.permits().map(ToString::to_string)),
        (
            "on_store_error",
            info.on_store_error().map(ToString::to_string),
        ),
        ("settle", info.settle().map(ToString::to_string)),
        ("disabled", info.disabled().map(ToString::to_string)),
    ];
    let all = durations.into_iter().chain(others);
    let rows = all.filter_map(|(name, shown)| {
        // As `10m (idempotence.toml:5)`.
        let shown = shown?;
        let (value, origin) = shown.split_once(" (").unwrap_or((&shown, ""));
        let origin = origin.strip_suffix(')').unwrap_or(origin);
        Some([name, value, origin].map(str::to_owned))
    });
    rows.collect()
}

/// The mistakes, one line for each.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn mistakes(error: SetupError) -> Failure {
    Failure::usage(format!("{error:?}"))
}
