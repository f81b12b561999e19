//! The keys in a store, of calls and of everything else.
//!
//! A call stands under `prefix:endpoint:digest`, and everything else under `prefix:#kind:…`. Neither a prefix nor the name of
//! an endpoint has a `#`. So the first `#` of a key ends its prefix, and no choice of a prefix and a name makes a key that
//! belongs to something else: the counter `logins` of `idem` is not the endpoint `logins` of `idem:count`.

use std::fmt;

use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;

/// What stands under a key that is not a call's of the handle's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Bloom,
    Count,
    Doctor,
    #[cfg(feature = "order-numbers")]
    Machine,
    #[cfg(feature = "order-numbers")]
    Number,
    Seen,
    Token,
    /// A call that its caller's transaction holds.
    Tx,
}

impl Kind {
    /// Its name in a key.
    fn mark(self) -> &'static str {
        match self {
            Self::Bloom => "#bloom",
            Self::Count => "#count",
            Self::Doctor => "#doctor",
            #[cfg(feature = "order-numbers")]
            Self::Machine => "#machine",
            #[cfg(feature = "order-numbers")]
            Self::Number => "#number",
            Self::Seen => "#seen",
            Self::Token => "#token",
            Self::Tx => "#tx",
        }
    }

    /// The key of something of this kind, with what names it: `idem:#token:orders.submit:9e10…`.
    pub(crate) fn key(self, prefix: &str, name: impl fmt::Display) -> String {
        format!("{prefix}:{}:{name}", self.mark())
    }
}

/// The key of a call: `idem:orders.pay:9e10…`.
pub(crate) fn key_of_call(prefix: &str, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
    let endpoint = endpoint.as_str();
    let mut key = String::with_capacity(prefix.len() + endpoint.len() + 66);
    key.push_str(prefix);
    key.push(':');
    key.push_str(endpoint);
    key.push(':');
    fingerprint.push_hex(&mut key);
    key
}

/// The key of a call that its caller's transaction holds. It is not that of the same call in the store: a guarded call
/// around it may have the same name and key, and the store may be the same table.
pub(crate) fn key_in_tx(prefix: &str, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
    Kind::Tx.key(prefix, format_args!("{endpoint}:{fingerprint}"))
}

/// Whether keys may begin with `text`: 1 to 64 of `A-Z a-z 0-9 . _ : -`.
pub(crate) fn is_prefix(text: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || "._:-".contains(char);
    (1..=64).contains(&text.len()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arbtest::arbitrary::{Result, Unstructured};

    use super::*;
    use crate::cases::cases;

    const KINDS: [Kind; 5] = [Kind::Bloom, Kind::Count, Kind::Seen, Kind::Token, Kind::Tx];

    /// What makes keys that look alike: names of kinds, and everything that a key or its readers know.
    const PIECES: [&str; 14] = [
        "idem", "count", "tx", "token", "seen", "bloom", "logins", ":", "::", "#", "'#'", "%", ".",
        "{",
    ];

    fn text(u: &mut Unstructured<'_>) -> Result<String> {
        let mut text = String::new();
        for _ in 0..u.int_in_range(1..=5)? {
            text.push_str(u.choose(&PIECES)?);
        }
        Ok(text)
    }

    /// What a key belongs to: a prefix, a kind unless it is that of a call, and an endpoint.
    type Owner = (String, Option<Kind>, String);

    /// All keys that two words can make as a prefix and the name of an endpoint, and what each belongs to.
    fn keys(prefix: &str, name: &str) -> Vec<(String, Owner)> {
        if !is_prefix(prefix) {
            return Vec::new();
        }
        let fingerprint = Fingerprint::of(&(1,)).unwrap();
        let path: &'static str = name.to_owned().leak();
        let named = Endpoint::try_new(name.to_owned()).ok();
        let mut keys = Vec::new();
        for endpoint in named.into_iter().chain([Endpoint::at(path)]) {
            let owner = |kind| (prefix.to_owned(), kind, endpoint.as_str().to_owned());
            let key = key_of_call(prefix, &endpoint, &fingerprint);
            keys.push((key, owner(None)));
            for kind in KINDS {
                let name = match kind {
                    Kind::Bloom | Kind::Seen => format!("{{{endpoint}}}"),
                    _ => format!("{endpoint}:{fingerprint}"),
                };
                keys.push((kind.key(prefix, name), owner(Some(kind))));
            }
        }
        keys
    }

    #[test]
    fn no_prefix_and_name_make_a_key_of_something_else() {
        let mut known = HashMap::new();
        cases(128, |u| {
            for (key, owner) in keys(&text(u)?, &text(u)?) {
                let other = known.entry(key.clone()).or_insert_with(|| owner.clone());
                assert_eq!(*other, owner, "{key}");
            }
            Ok(())
        });
        assert!(known.len() > 1000, "{}", known.len());
    }

    /// The negative control: without its mark, a kind is the end of another's prefix.
    #[test]
    fn without_the_mark_keys_of_two_kinds_meet() {
        let of = |prefix| {
            let mut keys = keys(prefix, "logins");
            keys.retain(|(key, _)| key.contains("count"));
            keys.into_iter().map(|(key, _)| key.replace('#', ""))
        };
        let of_kind: Vec<_> = of("idem").collect();
        assert!(of("idem:count").any(|key| of_kind.contains(&key)));
    }

    #[test]
    fn a_prefix_has_no_mark() {
        for prefix in ["idem:#count", "#", "idem:#tx:orders.pay"] {
            assert!(!is_prefix(prefix), "{prefix}");
        }
    }

    #[test]
    fn keys_say_what_they_are_of() {
        let endpoint = Endpoint::named("orders.pay");
        let fingerprint = Fingerprint::of(&(1,)).unwrap();
        assert_eq!(
            key_of_call("shop", &endpoint, &fingerprint),
            format!("shop:orders.pay:{fingerprint}")
        );
        let name = format_args!("{endpoint}:{fingerprint}");
        assert_eq!(
            Kind::Tx.key("shop", name),
            format!("shop:#tx:orders.pay:{fingerprint}")
        );
    }
}
