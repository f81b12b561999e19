//! Patterns of the names of endpoints.

/// Whether `name` matches `pattern`, in which `*` matches any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The beginning of every name that matches.
pub(crate) fn beginning(pattern: &str) -> &str {
    pattern.split('*').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "orders.pay", true),
            ("orders.pay", "orders.pay", true),
            ("orders.pay", "orders.pays", false),
            ("orders.*", "orders.pay", true),
            ("orders.*", "order.pay", false),
            ("*.pay", "orders.pay", true),
            ("*.pay", "orders.pay.x", false),
            ("o*s.*y", "orders.pay", true),
            ("a*a", "a", false),
            ("a*b*c", "a-c", false),
            ("POST /orders/*", "POST /orders/{id}", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert_eq!(beginning("orders.*y"), "orders.");
    }
}
