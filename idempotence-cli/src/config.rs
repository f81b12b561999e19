//! `config`: checks and explains settings.

use std::path::Path;

use idempotence::{Settings, SetupError};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::Output;

pub(crate) fn check(file: &Path, output: &mut Output) -> Result<(), Failure> {
    Settings::file(file).check().map_err(mistakes)?;
    if output.is_json() {
        return output.json(&serde_json::json!({ "mistakes": [], "not_checked": [UNKNOWN] }));
    }
    output.line(&format!(
        "no mistakes in the names and values of settings\nnot checked: {UNKNOWN}. The program checks this when it starts, and at a reload"
    ))
}

/// What only the program knows.
const UNKNOWN: &str =
    "whether the endpoints exist, and whether their options in code allow the settings";

pub(crate) fn explain(
    endpoint: &str,
    file: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let settings = file.map_or_else(Settings::env, Settings::file);
    let info = settings.of_endpoint(endpoint).map_err(mistakes)?;
    if output.is_json() {
        let settings = info.settings();
        let settings = settings.map(|(name, value, origin)| ExplainedSetting {
            name,
            value,
            origin: origin.to_string(),
        });
        let settings = settings.collect();
        return output.json(&Explained { endpoint, settings });
    }
    let rows: Vec<_> = info
        .settings()
        .map(|(name, value, origin)| [name.to_owned(), value, origin.to_string()])
        .collect();
    if rows.is_empty() {
        return output.line("no settings: its attribute and the defaults decide");
    }
    output.table(["SETTING", "VALUE", "ORIGIN"], &rows)
}

#[derive(Serialize)]
struct Explained<'a> {
    endpoint: &'a str,
    settings: Vec<ExplainedSetting>,
}

#[derive(Serialize)]
struct ExplainedSetting {
    name: &'static str,
    value: String,
    origin: String,
}

/// The mistakes, one line for each.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn mistakes(error: SetupError) -> Failure {
    Failure::usage(format!("{error:?}"))
}
