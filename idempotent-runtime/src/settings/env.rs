//! Settings from the environment: `IDEMPOTENCE_TTL`, `IDEMPOTENCE__ORDERS_PAY__TTL`.

use std::collections::BTreeMap;
use std::env;

use super::overrides::{LIST, NAMES, Overrides, in_capitals, is_for_the_attribute};
use super::setting::Origin;
use super::table::{Layer, Named};
use crate::error::closest::closest;

const PREFIX: &str = "IDEMPOTENCE_";

/// What a program may read itself to set its handle up.
const LEFT_TO_THE_PROGRAM: [&str; 5] = ["URL", "PREFIX", "SECRET", "DEADLINE", "SETTINGS"];

/// Whether Kubernetes sets it, as in `IDEMPOTENCE_REDIS_SERVICE_HOST`, for a service that is called `idempotence…`.
fn is_of_a_service(rest: &str) -> bool {
    let mut words = rest.split('_');
    !rest.starts_with('_') && (rest.ends_with("SERVICE_HOST") || words.any(|word| word == "PORT"))
}

/// The variables of this process; what is not UTF-8 in them can be no setting, and is reported as such.
pub(super) fn of_the_process() -> impl Iterator<Item = (String, String)> {
    env::vars_os().map(|(name, value)| {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        (text(name), text(value))
    })
}

pub(super) fn read(
    variables: impl Iterator<Item = (String, String)>,
    problems: &mut Vec<String>,
) -> Layer {
    // In order, so that the same mistakes make the same text.
    let variables: BTreeMap<String, String> = variables.collect();
    let mut layer = Layer::default();
    for (name, value) in &variables {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if LEFT_TO_THE_PROGRAM.contains(&rest) || is_of_a_service(rest) {
            continue;
        }
        let origin = Origin::Env {
            name: name.as_str().into(),
        };
        let set = addressee(rest).and_then(|(endpoint, setting)| {
            let overrides = match endpoint {
                None => &mut layer.all,
                Some(endpoint) => overrides(&mut layer, endpoint, &origin),
            };
            overrides.set(setting, value, origin)
        });
        if let Err(what) = set {
            problems.push(format!("{}: {what}", name.escape_debug()));
        }
    }
    layer
}

fn overrides<'a>(layer: &'a mut Layer, endpoint: &str, origin: &Origin) -> &'a mut Overrides {
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
/// Whom a variable is for, and what it sets.
fn addressee(rest: &str) -> Result<(Option<&str>, &'static str), String> {
    let parted = rest.strip_prefix('_').map(|named| named.rsplit_once("__"));
    match parted {
        None => match setting(rest) {
            Some(setting) => Ok((None, setting)),
            None => Err(unknown(rest)),
        },
        Some(Some((endpoint, name))) if !endpoint.is_empty() => {
            let capitals = in_capitals(endpoint);
            match setting(name) {
                Some(setting) if capitals == endpoint => Ok((Some(endpoint), setting)),
                Some(_) => Err(format!("write `{PREFIX}_{capitals}__{name}`")),
                None => Err(not_a_setting(name, &format!("{PREFIX}_{capitals}__"))),
            }
        }
        Some(_) => Err(unknown(rest)),
    }
}

fn setting(name: &str) -> Option<&'static str> {
    let is_it = |setting: &&str| setting.to_ascii_uppercase() == name;
    NAMES.into_iter().find(is_it)
}

/// What to write instead of a variable that names no setting, or no endpoint.
fn unknown(rest: &str) -> String {
    // Input:  ORDERS_PAY_TTL
    // Output: IDEMPOTENCE__ORDERS_PAY__TTL
    for setting in NAMES.map(str::to_ascii_uppercase) {
        let endpoint = rest
            .strip_suffix(&format!("_{setting}"))
            .unwrap_or_default();
        let endpoint = endpoint.trim_matches('_');
        if !endpoint.is_empty() {
            let endpoint = in_capitals(endpoint);
            return format!("for one endpoint write `{PREFIX}_{endpoint}__{setting}`");
        }
    }
    not_a_setting(rest, PREFIX)
}

fn not_a_setting(name: &str, before: &str) -> String {
    if is_for_the_attribute(&name.to_ascii_lowercase()) {
        return format!("set in the attribute only: the settings are {LIST}, in capitals");
    }
    let capitals = NAMES.map(str::to_ascii_uppercase);
    match closest(&in_capitals(name), capitals.iter().map(String::as_str)) {
        Some(setting) => format!("not a setting: did you mean `{before}{setting}`?"),
        None => {
            format!("not a setting: variables that begin with `{PREFIX}` set {LIST}, in capitals")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_these(variables: &[(&str, &str)]) -> (Layer, Vec<String>) {
        let mut problems = Vec::new();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let layer = read(variables.iter().map(owned), &mut problems);
        (layer, problems)
    }

    #[test]
    fn a_variable_is_for_all_or_for_the_endpoint_in_it() {
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
    fn every_mistake_says_what_to_write() {
        for (name, value, problem) in [
            (
                "IDEMPOTENCE_TTL",
                "30",
                "a duration needs a unit: write `30s`",
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
            (
                "IDEMPOTENCE_RELEASE",
                "true",
                "set in the attribute only: the settings are \
                 `ttl`, `lease`, `wait` and `on_store_error`, in capitals",
            ),
            (
                "IDEMPOTENCE_COLOUR",
                "true",
                "not a setting: variables that begin with `IDEMPOTENCE_` set \
                 `ttl`, `lease`, `wait` and `on_store_error`, in capitals",
            ),
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
    fn what_kubernetes_sets_for_a_service_is_no_mistake() {
        let (_, problems) = read_these(&[
            ("IDEMPOTENCE_SERVICE_HOST", "10.0.0.1"),
            ("IDEMPOTENCE_REDIS_SERVICE_PORT", "6379"),
            ("IDEMPOTENCE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn what_a_program_sets_its_handle_up_with_is_left_to_it() {
        let (_, problems) = read_these(&[
            ("IDEMPOTENCE_URL", "redis://host/"),
            ("IDEMPOTENCE_SETTINGS", "idempotence.toml"),
        ]);
        assert_eq!(problems, [""; 0]);
    }
}
