//! What the file and the environment say, and which of them counts for an endpoint.

use std::collections::BTreeMap;

use super::overrides::{Overrides, Resolved, in_capitals};
use super::setting::Origin;
use crate::error::closest::closest;

/// What one source says.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) all: Overrides,
    /// By name in the file, by name in capitals in the environment.
    pub(super) endpoints: BTreeMap<String, Named>,
}

/// What one source says of one endpoint.
#[derive(Debug)]
pub(super) struct Named {
    /// Where the endpoint is named first.
    pub(super) origin: Origin,
    pub(super) overrides: Overrides,
}

/// What both sources say.
#[derive(Debug, Default)]
pub(crate) struct Table {
    all: Overrides,
    in_file: BTreeMap<String, Named>,
    in_env: BTreeMap<String, Named>,
}

impl Table {
    pub(super) fn new(file: Layer, env: Layer) -> Self {
        Self {
            all: env.all.over(file.all),
            in_file: file.endpoints,
            in_env: env.endpoints,
        }
    }

    /// What is set for `endpoint`.
    pub(crate) fn of(&self, endpoint: &str) -> Resolved {
        let said = |named: Option<&Named>| {
            named.map_or_else(Overrides::default, |named| named.overrides.clone())
        };
        // Most handles have no settings, and then there is no name to work out.
        let in_env = (!self.in_env.is_empty()).then(|| in_capitals(endpoint));
        let in_env = in_env.and_then(|name| self.in_env.get(&name));
        Resolved {
            named: said(in_env).over(said(self.in_file.get(endpoint))),
            all: self.all.clone(),
        }
    }

    /// A line for each endpoint that is set but not among the `known`.
    pub(crate) fn unknown(&self, known: &[&str]) -> Vec<String> {
        let capitals: Vec<String> = known.iter().copied().map(in_capitals).collect();
        let capitals: Vec<&str> = capitals.iter().map(String::as_str).collect();
        let in_file = self.in_file.iter().map(|named| (named, known));
        let in_env = self.in_env.iter().map(|named| (named, &*capitals));
        in_file
            .chain(in_env)
            .filter(|((name, _), known)| !known.contains(&name.as_str()))
            .map(|((name, named), known)| {
                let origin = &named.origin;
                let guess = match closest(name, known.iter().copied()) {
                    Some(guess) => format!("did you mean `{guess}`?"),
                    None => "nothing is set by it".to_owned(),
                };
                format!(
                    "{origin}: no endpoint `{name}` is known: {guess} \
                     (a function without the option `name` becomes known with its first call)"
                )
            })
            .collect()
    }
}

#[cfg(all(test, feature = "toml"))]
mod tests {
    use std::path::Path;

    use super::super::{env, file};
    use super::*;

    fn table(text: &str, variables: &[(&str, &str)]) -> Table {
        let mut problems = Vec::new();
        let file = file::parse(Path::new("a.toml"), text, &mut problems);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let env = env::read(variables.iter().map(owned), &mut problems);
        assert_eq!(problems, [""; 0]);
        Table::new(file, env)
    }

    #[test]
    fn the_endpoint_counts_more_than_all_and_a_variable_more_than_the_file() {
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
            let resolved = table(&text, &variables).of("orders.pay");
            resolved.of_unknown().ttl.map(|ttl| ttl.to_string())
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
    fn each_setting_is_looked_for_by_itself() {
        let table = table(
            "[all]\nttl = \"1m\"\nwait = \"1s\"\n[endpoints.\"orders.pay\"]\nttl = \"2m\"",
            &[("IDEMPOTENCE_ON_STORE_ERROR", "run")],
        );
        let pay = table.of("orders.pay").of_unknown();
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
            assert!(table.of(name).of_unknown().ttl.is_some(), "{name}");
        }
        assert!(table.of("orders.pay2").of_unknown().ttl.is_none());
    }

    #[test]
    fn an_endpoint_that_is_not_known_is_reported_with_the_closest_that_is() {
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
            table.unknown(&known),
            [
                format!(
                    "a.toml:1: no endpoint `orders.pya` is known: did you mean `orders.pay`? {hint}"
                ),
                format!("a.toml:3: no endpoint `queue` is known: nothing is set by it {hint}"),
                format!(
                    "IDEMPOTENCE__ORDERS_PYA__TTL: no endpoint `ORDERS_PYA` is known: \
                     did you mean `ORDERS_PAY`? {hint}"
                ),
            ]
        );
    }
}
