//! The settings of the file and of the environment, and which of them is in force for an endpoint.

use std::collections::BTreeMap;
use std::time::Duration;

use super::overrides::{Overrides, Resolved, in_capitals};
use super::setting::Origin;
use crate::error::closest::closest;
use crate::policy::duration::Written;

/// The settings of one source.
#[derive(Debug, Default)]
pub(super) struct SourceSettings {
    pub(super) all: Overrides,
    /// In the file by the name of the endpoint, in the environment by this name in capitals.
    pub(super) endpoints: BTreeMap<String, Named>,
}

/// The settings of one endpoint in one source.
#[derive(Debug)]
pub(super) struct Named {
    /// Where the source first names the endpoint.
    pub(super) origin: Origin,
    pub(super) overrides: Overrides,
}

/// The settings of both sources.
#[derive(Debug, Default)]
pub(crate) struct SettingsTable {
    all: Overrides,
    in_file: BTreeMap<String, Named>,
    in_env: BTreeMap<String, Named>,
}

impl SettingsTable {
    pub(super) fn new(file: SourceSettings, env: SourceSettings) -> Self {
        Self {
            all: env.all.or(file.all),
            in_file: file.endpoints,
            in_env: env.endpoints,
        }
    }

    /// The settings of `endpoint`.
    pub(crate) fn resolve(&self, endpoint: &str) -> Resolved {
        let overrides = |named: Option<&Named>| {
            named.map_or_else(Overrides::default, |named| named.overrides.clone())
        };
        // The name in capitals is made only if it is needed: most handles have no settings.
        let in_env = (!self.in_env.is_empty()).then(|| in_capitals(endpoint));
        let in_env = in_env.and_then(|name| self.in_env.get(&name));
        Resolved {
            named: overrides(in_env).or(overrides(self.in_file.get(endpoint))),
            all: self.all.clone(),
        }
    }

    /// A line for each setting in force that disables the guard. It says which endpoints are not among the `known` endpoints.
    pub(crate) fn disabled(&self, known: &[&str]) -> Vec<String> {
        let all = self.all.disabled.iter().filter(|setting| setting.value);
        let all = all.map(|setting| {
            let origin = &setting.origin;
            format!("{origin}: `disabled = true` for every endpoint: {UNGUARDED}")
        });
        let is_overridden = |name: &str| {
            let named = self.in_env.get(&in_capitals(name));
            named.is_some_and(|named| named.overrides.disabled.is_some())
        };
        let in_file = self.in_file.iter();
        let in_file = in_file.filter(|(name, _)| !is_overridden(name));
        let named = in_file.chain(&self.in_env).filter_map(|(name, named)| {
            let setting = named.overrides.disabled.as_ref()?;
            let origin = &setting.origin;
            let is_known = |known: &&str| *known == name || in_capitals(known) == *name;
            let unknown = if known.iter().any(is_known) {
                ""
            } else {
                " (no call has had this name yet: is it misspelled?)"
            };
            let line = || format!("{origin}: `disabled = true` for `{name}`{unknown}: {UNGUARDED}");
            setting.value.then(line)
        });
        all.chain(named).collect()
    }

    /// A line for each `ttl` below a second.
    pub(crate) fn short_ttls(&self) -> Vec<String> {
        let short = |overrides: &Overrides, endpoints: &str| {
            let ttl = overrides.ttl.as_ref()?;
            let (origin, value) = (&ttl.origin, Written(ttl.value));
            (ttl.value < SHORT_TTL)
                .then(|| format!("{origin}: `ttl = {value}` for {endpoints}: {RUNS_AGAIN}"))
        };
        let named = self.in_file.iter().chain(&self.in_env);
        let named = named.filter_map(|(name, named)| short(&named.overrides, &format!("`{name}`")));
        let all = short(&self.all, "every endpoint");
        all.into_iter().chain(named).collect()
    }

    /// A line for each endpoint that has settings but is not among the `known` endpoints.
    pub(crate) fn unknown_endpoints(&self, known: &[&str]) -> Vec<UnknownEndpoint> {
        let capitals: Vec<String> = known.iter().copied().map(in_capitals).collect();
        let capitals: Vec<&str> = capitals.iter().map(String::as_str).collect();
        let in_file = self.in_file.iter().map(|named| (named, known));
        let in_env = self.in_env.iter().map(|named| (named, &*capitals));
        in_file
            .chain(in_env)
            .filter(|((name, _), known)| !known.contains(&name.as_str()))
            .map(|((name, named), known)| {
                let origin = &named.origin;
                let guess = closest(name, known.iter().copied());
                let may_follow = is_route(name) && guess.is_none();
                let line = match (is_route(name), guess) {
                    (false, None) => format!(
                        "{origin}: unknown endpoint `{name}`: its settings have no effect {FIRST_CALL}"
                    ),
                    (false, Some(guess)) => format!(
                        "{origin}: unknown endpoint `{name}`: did you mean `{guess}`? {FIRST_CALL}"
                    ),
                    (true, None) => format!(
                        "{origin}: the route `{name}` has had no request yet: its settings take effect with its first request"
                    ),
                    (true, Some(guess)) => format!(
                        "{origin}: unknown endpoint `{name}`: did you mean `{guess}`? (a route becomes known with its first request)"
                    ),
                };
                UnknownEndpoint { line, may_follow }
            })
            .collect()
    }
}

/// An endpoint with settings, which no call has had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownEndpoint {
    pub(crate) line: String,
    /// It is a route, and nothing says that it is misspelled: a route is not known before its first request.
    pub(crate) may_follow: bool,
}

/// No client repeats a request so soon, so a shorter `ttl` is more likely a wrong unit.
const SHORT_TTL: Duration = Duration::from_secs(1);

const RUNS_AGAIN: &str = "an equal call that begins later runs again (is the unit right?)";
const UNGUARDED: &str = "bodies run unguarded, so equal calls run at the same time and again (calls with a one-time token stay guarded; \
     a call with `fence = true` still draws its number, but gets 0 without an answer of the store, which its resource refuses)";
const FIRST_CALL: &str = "(a function without the option `name` becomes known with its first call)";

/// Whether this is the name of a route, such as `POST /orders`, or its form in the name of a variable, `POST__ORDERS`.
fn is_route(name: &str) -> bool {
    let methods = ["POST", "PATCH", "PUT", "DELETE"];
    let mut rests = methods
        .iter()
        .filter_map(|method| name.strip_prefix(method));
    rests.any(|rest| rest.starts_with(" /") || rest.starts_with("__"))
}

#[cfg(all(test, feature = "toml"))]
mod tests {
    use std::path::Path;

    use super::super::{env, file};
    use super::*;

    fn table(text: &str, variables: &[(&str, &str)]) -> SettingsTable {
        let mut problems = Vec::new();
        let file = file::parse(Path::new("a.toml"), text, &mut problems);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let env = env::read(variables.iter().map(owned), &mut problems);
        assert_eq!(problems, [""; 0]);
        SettingsTable::new(file, env)
    }

    /// The lines about unknown endpoints, which are all routes before their first request, or none.
    fn lines(table: &SettingsTable, known: &[&str], may_follow: bool) -> Vec<String> {
        let unknown = table.unknown_endpoints(known).into_iter();
        let line = |unknown: UnknownEndpoint| {
            assert_eq!(unknown.may_follow, may_follow, "{unknown:?}");
            unknown.line
        };
        unknown.map(line).collect()
    }

    #[test]
    fn an_endpoint_is_stronger_than_all_and_a_variable_is_stronger_than_the_file() {
        let lines = [
            ("", "[all]\nttl = \"4s\""),
            ("IDEMPOTENCE_TTL", "3s"),
            ("", "\n[endpoints.\"orders.pay\"]\nttl = \"2s\""),
            ("IDEMPOTENCE__ORDERS_PAY__TTL", "1s"),
        ];
        let ttl = |lines: &[(&str, &str)]| {
            let (text, variables): (Vec<_>, Vec<_>) =
                lines.iter().partition(|(name, _)| name.is_empty());
            let text: String = text.iter().map(|(_, text)| *text).collect();
            let resolved = table(&text, &variables).resolve("orders.pay");
            resolved.without_attribute().ttl.map(|ttl| ttl.to_string())
        };
        let strongest = [
            "4s (a.toml:2)",
            "3s (IDEMPOTENCE_TTL)",
            "2s (a.toml:4)",
            "1s (IDEMPOTENCE__ORDERS_PAY__TTL)",
        ];
        for (last, strongest) in strongest.iter().enumerate() {
            assert_eq!(ttl(&lines[..=last]).as_deref(), Some(*strongest));
        }
        assert_eq!(ttl(&[]), None);
    }

    #[test]
    fn only_settings_in_force_are_listed_as_disabling_the_guard() {
        let table = table(
            "[all]\ndisabled = true\n[endpoints.\"orders.pay\"]\ndisabled = true\n[endpoints.a]\ndisabled = true",
            &[
                ("IDEMPOTENCE_DISABLED", "false"),
                ("IDEMPOTENCE__ORDERS_PAY__DISABLED", "false"),
                ("IDEMPOTENCE__B__DISABLED", "true"),
            ],
        );
        let [a, b] = [
            "a.toml:6: `disabled = true` for `a`",
            "IDEMPOTENCE__B__DISABLED: `disabled = true` for `B`",
        ];
        let line = |line, unknown| format!("{line}{unknown}: {UNGUARDED}");
        let unknown = " (no call has had this name yet: is it misspelled?)";
        assert_eq!(table.disabled(&["a", "b"]), [line(a, ""), line(b, "")]);
        assert_eq!(table.disabled(&["c", "b"]), [line(a, unknown), line(b, "")]);
    }

    #[test]
    fn each_setting_is_looked_up_separately() {
        let table = table(
            "[all]\nttl = \"1m\"\nwait = \"1s\"\n[endpoints.\"orders.pay\"]\nttl = \"2m\"",
            &[("IDEMPOTENCE_ON_STORE_ERROR", "run")],
        );
        let pay = table.resolve("orders.pay").without_attribute();
        let shown = (
            pay.ttl.map(|ttl| ttl.to_string()),
            pay.wait.map(|wait| wait.to_string()),
            pay.on_store_error.map(|word| word.to_string()),
        );
        let expected = [
            "2m (a.toml:5)",
            "1s (a.toml:3)",
            "run (IDEMPOTENCE_ON_STORE_ERROR)",
        ];
        let [ttl, wait, on_store_error] = expected.map(|text| Some(text.to_owned()));
        assert_eq!(shown, (ttl, wait, on_store_error));
    }

    #[test]
    fn endpoints_whose_names_are_equal_in_capitals_share_a_variable() {
        let table = table("", &[("IDEMPOTENCE__ORDERS_PAY__TTL", "1s")]);
        for name in ["orders.pay", "orders-pay", "Orders_Pay"] {
            assert!(
                table.resolve(name).without_attribute().ttl.is_some(),
                "{name}"
            );
        }
        assert!(
            table
                .resolve("orders.pay2")
                .without_attribute()
                .ttl
                .is_none()
        );
    }

    #[test]
    fn a_route_is_named_in_its_own_spelling_as_in_a_key_or_in_capitals() {
        for (text, variables) in [
            (
                "[endpoints.\"POST /v1/orders/{id}:pay\"]\nttl = \"1s\"",
                vec![],
            ),
            (
                "[endpoints.\"POST./v1/orders/(id)%3apay\"]\nttl = \"1s\"",
                vec![],
            ),
            (
                "",
                vec![("IDEMPOTENCE__POST__V1_ORDERS__ID__PAY__TTL", "1s")],
            ),
        ] {
            let table = table(text, &variables);
            let route = crate::key::endpoint::Endpoint::called("POST /v1/orders/{id}:pay");
            let route = route.unwrap();
            let resolved = table.resolve(route.as_str()).without_attribute();
            assert!(resolved.ttl.is_some(), "{text} {variables:?}");
            assert_eq!(table.unknown_endpoints(&[route.as_str()]), []);
        }
    }

    #[test]
    fn an_unknown_route_is_reported_in_its_own_spelling() {
        let table = table("[endpoints.\"POST./orders/(id)/pya\"]", &[]);
        let unknown = lines(&table, &["POST /orders/{id}/pay"], false).join("");
        let expected =
            "unknown endpoint `POST /orders/{id}/pya`: did you mean `POST /orders/{id}/pay`?";
        assert!(unknown.contains(expected), "{unknown}");
    }

    #[test]
    fn a_route_before_its_first_request_is_not_called_unknown() {
        let table = table(
            "[endpoints.\"POST /orders/{id}/pay\"]",
            &[("IDEMPOTENCE__POST__ORDERS__ID__PAY__TTL", "1s")],
        );
        let after = "has had no request yet: its settings take effect with its first request";
        assert_eq!(
            lines(&table, &[], true),
            [
                format!("a.toml:1: the route `POST /orders/{{id}}/pay` {after}"),
                format!(
                    "IDEMPOTENCE__POST__ORDERS__ID__PAY__TTL: the route `POST__ORDERS__ID__PAY` {after}"
                ),
            ]
        );
        assert_eq!(table.unknown_endpoints(&["POST /orders/{id}/pay"]), []);
    }

    #[test]
    fn an_unknown_endpoint_is_reported_with_the_closest_known_name() {
        let table = table(
            "[endpoints.\"orders.pya\"]\n[endpoints.\"orders.pay\"]\n[endpoints.\"queue\"]",
            &[
                ("IDEMPOTENCE__ORDERS_PAY__TTL", "1s"),
                ("IDEMPOTENCE__ORDERS_PYA__TTL", "1s"),
            ],
        );
        let known = ["orders.pay", "files.upload"];
        let hint = "(a function without the option `name` becomes known with its first call)";
        assert_eq!(
            lines(&table, &known, false),
            [
                format!(
                    "a.toml:1: unknown endpoint `orders.pya`: did you mean `orders.pay`? {hint}"
                ),
                format!("a.toml:3: unknown endpoint `queue`: its settings have no effect {hint}"),
                format!(
                    "IDEMPOTENCE__ORDERS_PYA__TTL: unknown endpoint `ORDERS_PYA`: \
                     did you mean `ORDERS_PAY`? {hint}"
                ),
            ]
        );
    }
}
