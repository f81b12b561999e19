//! Settings from the environment: `IDEMPOTENCE_TTL`, `IDEMPOTENCE__ORDERS_PAY__TTL`.

use std::collections::BTreeMap;
use std::env;

use super::overrides::{NAMES, Overrides, guess, in_capitals, list};
use super::setting::Origin;
use super::table::{Named, SourceSettings};

const PREFIX: &str = "IDEMPOTENCE_";

/// Variables that a program, or the command `idempotence`, may itself read to build its handle.
const PROGRAM_VARIABLES: [&str; 8] = [
    "URL", "STORE", "PREFIX", "DIGEST", "SECRET", "SEAL", "DEADLINE", "SETTINGS",
];

/// Whether Kubernetes sets the variable for a service named `idempotence…`, as in `IDEMPOTENCE_REDIS_SERVICE_HOST`.
fn is_service_variable(rest: &str) -> bool {
    let mut words = rest.split('_');
    !rest.starts_with('_') && (rest.ends_with("SERVICE_HOST") || words.any(|word| word == "PORT"))
}

/// The variables of this process. Bytes that are not UTF-8 become replacement characters, which no setting has.
pub(super) fn process_variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().map(|(name, value)| {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        (text(name), text(value))
    })
}

/// Reads the settings from `variables`, and adds a line to `problems` for each mistake.
pub(super) fn read(
    variables: impl Iterator<Item = (String, String)>,
    problems: &mut Vec<String>,
) -> SourceSettings {
    // Sorted, so that the same mistakes always give the same text.
    let variables: BTreeMap<String, String> = variables.collect();
    let mut layer = SourceSettings::default();
    for (name, value) in &variables {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if PROGRAM_VARIABLES.contains(&rest) || is_service_variable(rest) {
            continue;
        }
        let origin = Origin::Env {
            name: name.as_str().into(),
        };
        let set = parse_name(rest).and_then(|(endpoint, setting)| {
            let overrides = match endpoint {
                None => &mut layer.all,
                Some(endpoint) => overrides_of(&mut layer, endpoint, &origin),
            };
            overrides.set(setting, value, origin)
        });
        if let Err(what) = set {
            problems.push(format!("{}: {what}", name.escape_debug()));
        }
    }
    layer
}

fn overrides_of<'a>(
    layer: &'a mut SourceSettings,
    endpoint: &str,
    origin: &Origin,
) -> &'a mut Overrides {
    let named = layer.endpoints.entry(endpoint.to_owned());
    let named = named.or_insert_with(|| Named {
        origin: origin.clone(),
        overrides: Overrides::default(),
    });
    &mut named.overrides
}

// Input:  TTL
// Output: None, ttl
//
// Input:  _ORDERS_PAY__TTL
// Output: Some(ORDERS_PAY), ttl
/// The endpoint of a variable (`None` for all endpoints) and the setting.
fn parse_name(rest: &str) -> Result<(Option<&str>, &'static str), String> {
    let parted = rest.strip_prefix('_').map(|named| named.rsplit_once("__"));
    match parted {
        None => match setting_named(rest) {
            Some(setting) => Ok((None, setting)),
            None => Err(explain_unknown(rest)),
        },
        Some(Some((endpoint, name))) if !endpoint.is_empty() => {
            let capitals = in_capitals(endpoint);
            match setting_named(name) {
                Some(setting) if capitals == endpoint => Ok((Some(endpoint), setting)),
                Some(_) => Err(format!("write `{PREFIX}_{capitals}__{name}`")),
                None => Err(explain_not_a_setting(
                    name,
                    &format!("{PREFIX}_{capitals}__"),
                )),
            }
        }
        Some(_) => Err(explain_unknown(rest)),
    }
}

fn setting_named(name: &str) -> Option<&'static str> {
    let is_it = |setting: &&str| setting.to_ascii_uppercase() == name;
    NAMES.iter().copied().find(is_it)
}

/// The mistake in a variable that has neither of the two correct forms.
fn explain_unknown(rest: &str) -> String {
    // Input:  ORDERS_PAY_TTL
    // Output: IDEMPOTENCE__ORDERS_PAY__TTL
    for setting in NAMES.iter().map(|name| name.to_ascii_uppercase()) {
        let endpoint = rest
            .strip_suffix(&format!("_{setting}"))
            .unwrap_or_default();
        let endpoint = endpoint.trim_matches('_');
        if !endpoint.is_empty() {
            let endpoint = in_capitals(endpoint);
            return format!("for one endpoint write `{PREFIX}_{endpoint}__{setting}`");
        }
    }
    explain_not_a_setting(rest, PREFIX)
}

fn explain_not_a_setting(name: &str, before: &str) -> String {
    match guess(&name.to_ascii_lowercase()).map(str::to_ascii_uppercase) {
        Some(setting) => format!("not a setting: did you mean `{before}{setting}`?"),
        None => format!(
            "not a setting: variables that begin with `{PREFIX}` set, in capitals, {}",
            list()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_these(variables: &[(&str, &str)]) -> (SourceSettings, Vec<String>) {
        let mut problems = Vec::new();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let layer = read(variables.iter().map(owned), &mut problems);
        (layer, problems)
    }

    #[test]
    fn a_variable_is_for_all_endpoints_or_for_the_endpoint_in_its_name() {
        let (layer, problems) = read_these(&[
            ("IDEMPOTENCE_TTL", "5m"),
            ("IDEMPOTENCE__ORDERS_PAY__TTL", "10m"),
            ("IDEMPOTENCE__ORDERS___PAY___ON_STORE_ERROR", "run"),
            ("PATH", "/bin"),
            ("IDEMPOTENCE", "no"),
        ]);
        assert_eq!(problems, [""; 0]);
        let ttl = |overrides: &Overrides| overrides.ttl.as_ref().map(|ttl| ttl.value);
        assert_eq!(ttl(&layer.all), Some(Duration::from_mins(5)));
        let names: Vec<_> = layer.endpoints.keys().collect();
        assert_eq!(names, ["ORDERS_PAY", "ORDERS___PAY_"]);
        let pay = &layer.endpoints["ORDERS_PAY"].overrides;
        assert_eq!(ttl(pay), Some(Duration::from_mins(10)));
    }

    #[test]
    fn every_mistake_is_reported_with_what_to_write() {
        let unknown = format!(
            "not a setting: variables that begin with `IDEMPOTENCE_` set, in capitals, {}",
            list()
        );
        for (name, value, problem) in [
            (
                "IDEMPOTENCE_TTL",
                "30",
                "a duration needs a unit: write `30s`",
            ),
            (
                "IDEMPOTENCE__ORDERS_PAY__LEASE",
                "0s",
                "`0s` is too short: write a duration between `1ms` and `36500d`",
            ),
            (
                "IDEMPOTENCE_ON_STORE_ERROR",
                "Run",
                "`Run` is neither `refuse` nor `run`: did you mean `run`?",
            ),
            (
                "IDEMPOTENCE_TLL",
                "30s",
                "not a setting: did you mean `IDEMPOTENCE_TTL`?",
            ),
            (
                "IDEMPOTENCE_ttl",
                "30s",
                "not a setting: did you mean `IDEMPOTENCE_TTL`?",
            ),
            ("IDEMPOTENCE_RELEASE", "true", &unknown),
            ("IDEMPOTENCE_COLOUR", "true", &unknown),
            (
                "IDEMPOTENCE__ORDERS_PAY__LEESE",
                "30s",
                "not a setting: did you mean `IDEMPOTENCE__ORDERS_PAY__LEASE`?",
            ),
            (
                "IDEMPOTENCE_ORDERS_PAY_TTL",
                "30s",
                "for one endpoint write `IDEMPOTENCE__ORDERS_PAY__TTL`",
            ),
            (
                "IDEMPOTENCE__ORDERS_PAY_TTL",
                "30s",
                "for one endpoint write `IDEMPOTENCE__ORDERS_PAY__TTL`",
            ),
            (
                "IDEMPOTENCE__orders.pay__TTL",
                "30s",
                "write `IDEMPOTENCE__ORDERS_PAY__TTL`",
            ),
            (
                "IDEMPOTENCE__TTL",
                "30s",
                "not a setting: did you mean `IDEMPOTENCE_TTL`?",
            ),
        ] {
            let (_, problems) = read_these(&[(name, value)]);
            assert_eq!(problems, [format!("{name}: {problem}")]);
        }
    }

    #[test]
    fn variables_that_kubernetes_sets_for_a_service_are_ignored() {
        let (_, problems) = read_these(&[
            ("IDEMPOTENCE_SERVICE_HOST", "10.0.0.1"),
            ("IDEMPOTENCE_REDIS_SERVICE_PORT", "6379"),
            ("IDEMPOTENCE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn variables_that_the_program_reads_itself_are_ignored() {
        let (_, problems) = read_these(&[
            ("IDEMPOTENCE_URL", "redis://host/"),
            ("IDEMPOTENCE_SETTINGS", "idempotence.toml"),
        ]);
        assert_eq!(problems, [""; 0]);
    }
}
