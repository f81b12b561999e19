//! The members of a JSON value that count.

use super::json::Value;

/// The names from the outermost object to a member: `customer.id` has two.
pub(crate) type Path = Vec<String>;

/// Reads a path whose names have dots between them.
pub(crate) fn path(dotted: &str) -> Path {
    dotted.split('.').map(str::to_owned).collect()
}

/// Only the members at these paths. A path continues in every element of an array. A value without members is kept whole
/// where a path leads into it, so that `{"customer": null}` is not the same as no customer.
pub(crate) fn only<'a>(value: Value<'a>, paths: &[&[String]]) -> Value<'a> {
    if paths.iter().any(|path| path.is_empty()) {
        return value;
    }
    match value {
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| only(item, paths)).collect())
        }
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter_map(|(name, value)| {
                    let inner = inside(paths, &name);
                    (!inner.is_empty()).then(|| (name, only(value, &inner)))
                })
                .collect(),
        ),
        value => value,
    }
}

/// The value without the members at these paths. A path continues in every element of an array.
pub(crate) fn without<'a>(value: Value<'a>, paths: &[&[String]]) -> Value<'a> {
    match value {
        _ if paths.is_empty() => value,
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| without(item, paths)).collect())
        }
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter_map(|(name, value)| {
                    let inner = inside(paths, &name);
                    let is_removed = inner.iter().any(|path| path.is_empty());
                    (!is_removed).then(|| (name, without(value, &inner)))
                })
                .collect(),
        ),
        value => value,
    }
}

/// The member at this path. It does not look into arrays.
pub(crate) fn member<'v, 'a>(value: &'v Value<'a>, path: &[String]) -> Option<&'v Value<'a>> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => {
            let found = members.binary_search_by(|(other, _)| (**other).cmp(name));
            found.ok().map(|at| &members[at].1)
        }
        _ => None,
    })
}

/// What remains of the paths that lead into the member `name`.
fn inside<'p>(paths: &[&'p [String]], name: &str) -> Vec<&'p [String]> {
    let into = paths.iter().filter_map(|path| path.split_first());
    into.filter(|(first, _)| *first == name)
        .map(|(_, rest)| rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::canonical;
    use super::super::json::parse;
    use super::*;

    fn after(
        change: for<'a> fn(Value<'a>, &[&[String]]) -> Value<'a>,
        body: &str,
        dotted: &[&str],
    ) -> String {
        let paths: Vec<Path> = dotted.iter().map(|dotted| path(dotted)).collect();
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        let mut text = String::new();
        let value = change(parse(body.as_bytes()).expect(body), &paths);
        canonical::write(&value, &mut text).expect(body);
        text
    }

    const ORDER: &str =
        r#"{"at":1,"customer":{"id":7,"name":"A"},"items":[{"n":1,"sku":"x"},{"sku":"y"},3]}"#;

    #[test]
    fn only_the_named_members_are_kept() {
        for (paths, kept) in [
            (["at"].as_slice(), r#"{"at":1}"#),
            (&["customer.id"], r#"{"customer":{"id":7}}"#),
            (&["customer"], r#"{"customer":{"id":7,"name":"A"}}"#),
            (
                &["customer", "customer.id"],
                r#"{"customer":{"id":7,"name":"A"}}"#,
            ),
            (&["items.sku"], r#"{"items":[{"sku":"x"},{"sku":"y"},3]}"#),
            (&["at", "other"], r#"{"at":1}"#),
            (&["at.second"], r#"{"at":1}"#),
            (&["other"], "{}"),
            (&[], "{}"),
        ] {
            assert_eq!(after(only, ORDER, paths), kept, "{paths:?}");
        }
        assert_eq!(
            after(only, r#"{"customer":null}"#, &["customer.id"]),
            r#"{"customer":null}"#
        );
        assert_eq!(after(only, r#"[{"a":1,"b":2}]"#, &["a"]), r#"[{"a":1}]"#);
        assert_eq!(after(only, "5", &["a"]), "5");
    }

    #[test]
    fn the_named_members_are_removed() {
        let all = after(without, ORDER, &[]);
        for (paths, kept) in [
            (
                ["at"].as_slice(),
                r#"{"customer":{"id":7,"name":"A"},"items":[{"n":1,"sku":"x"},{"sku":"y"},3]}"#,
            ),
            (
                &["customer", "items.n"],
                r#"{"at":1,"items":[{"sku":"x"},{"sku":"y"},3]}"#,
            ),
            (
                &["customer.id", "items"],
                r#"{"at":1,"customer":{"name":"A"}}"#,
            ),
            (&["other", "at.second"], &all),
            (&["at", "customer", "items"], "{}"),
        ] {
            assert_eq!(after(without, ORDER, paths), kept, "{paths:?}");
        }
        assert_eq!(after(without, r#"[{"a":1,"b":2}]"#, &["a"]), r#"[{"b":2}]"#);
    }

    #[test]
    fn a_member_is_found_by_its_path() {
        let order = parse(ORDER.as_bytes()).unwrap();
        let found = |dotted| member(&order, &path(dotted));
        assert_eq!(found("customer.id"), Some(&Value::Number("7")));
        assert_eq!(found("at"), Some(&Value::Number("1")));
        assert_eq!(found("customer.other"), None);
        assert_eq!(found("items.sku"), None);
        assert_eq!(found("at.id"), None);
    }
}
