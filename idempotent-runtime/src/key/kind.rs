//! The keys in a store: the keys of calls, and the keys of all other records.
//!
//! The key of a call is `prefix:endpoint:digest`. Every other key is `prefix:#kind:…`. Neither a prefix nor the name of an
//! endpoint contains a `#`. So the first `#` of a key ends its prefix, and two different records never share a key: the
//! counter `logins` under the prefix `idem` differs from the endpoint `logins` under the prefix `idem:count`.

use std::fmt;

use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;
use crate::key::name::why_invalid;

/// The kind of a record, unless the record is of a call in the handle's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RecordKind {
    Bloom,
    Count,
    Doctor,
    /// The last number of the claims of a call's key.
    Fence,
    #[cfg(feature = "order-numbers")]
    Machine,
    #[cfg(feature = "order-numbers")]
    Number,
    Seen,
    /// The steps of a call's key that are done.
    Steps,
    Token,
    /// A call whose record is written in the caller's transaction.
    Tx,
}

impl RecordKind {
    /// The name of the kind in a key.
    fn mark(self) -> &'static str {
        match self {
            Self::Bloom => "#bloom",
            Self::Count => "#count",
            Self::Doctor => "#doctor",
            Self::Fence => "#fence",
            #[cfg(feature = "order-numbers")]
            Self::Machine => "#machine",
            #[cfg(feature = "order-numbers")]
            Self::Number => "#number",
            Self::Seen => "#seen",
            Self::Steps => "#steps",
            Self::Token => "#token",
            Self::Tx => "#tx",
        }
    }

    /// Returns the key of a record of this kind: `idem:#token:orders.submit:9e10…`.
    pub(crate) fn key(self, prefix: &str, name: impl fmt::Display) -> String {
        format!("{prefix}:{}:{name}", self.mark())
    }
}

/// Appends the key of a call to `key`: `idem:orders.pay:9e10…`.
pub(crate) fn push_key_of_call(
    key: &mut String,
    prefix: &str,
    endpoint: &Endpoint,
    fingerprint: &Fingerprint,
) {
    key.push_str(prefix);
    key.push(':');
    key.push_str(endpoint.in_key());
    key.push(':');
    fingerprint.push_hex(key);
}

/// Returns the key of a call whose record is written in the caller's transaction. It differs from the key of the same call
/// in the handle's store: a guarded call around it may have the same name and key parts, and both may use one table.
pub(crate) fn key_in_tx(prefix: &str, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
    let name = endpoint.in_key();
    RecordKind::Tx.key(prefix, format_args!("{name}:{fingerprint}"))
}

/// Why `text` cannot be the prefix of keys, as the predicate of a sentence about it. Valid are 1 to 64 of `A-Z a-z 0-9 . _ : -`.
pub(crate) fn why_no_prefix(text: &str) -> Option<String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._:-".contains(char);
    why_invalid(text, 64, is_allowed)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arbtest::arbitrary::{Result, Unstructured};

    use super::*;
    use crate::cases::cases;

    const KINDS: [RecordKind; 5] = [
        RecordKind::Bloom,
        RecordKind::Count,
        RecordKind::Seen,
        RecordKind::Token,
        RecordKind::Tx,
    ];

    /// Pieces of keys that look alike: names of kinds, and characters with a meaning in a key.
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

    fn key_of_call(prefix: &str, endpoint: &Endpoint, fingerprint: &Fingerprint) -> String {
        let mut key = String::new();
        push_key_of_call(&mut key, prefix, endpoint, fingerprint);
        key
    }

    /// The record that a key names: a prefix, a kind (`None` for a call), and an endpoint.
    type Owner = (String, Option<RecordKind>, String);

    /// Returns all keys with this prefix and this name of an endpoint, each with the record that it names.
    fn keys(prefix: &str, name: &str) -> Vec<(String, Owner)> {
        if why_no_prefix(prefix).is_some() {
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
                    RecordKind::Bloom => format!("{{{endpoint}}}"),
                    _ => format!("{endpoint}:{fingerprint}"),
                };
                keys.push((kind.key(prefix, name), owner(Some(kind))));
            }
        }
        keys
    }

    #[test]
    fn two_different_records_never_share_a_key() {
        let mut known = HashMap::new();
        cases(128, |u| {
            for (key, owner) in keys(&text(u)?, &text(u)?) {
                let other = known.entry(key.clone()).or_insert_with(|| owner.clone());
                assert_eq!(*other, owner, "{key}");
            }
            Ok(())
        });
        assert!(known.len() > 1000, "only {} different keys", known.len());
    }

    /// The negative control: without the `#`, the name of a kind can be the end of another record's prefix.
    #[test]
    fn without_the_hash_sign_two_records_share_a_key() {
        let of = |prefix| {
            let mut keys = keys(prefix, "logins");
            keys.retain(|(key, _)| key.contains("count"));
            keys.into_iter().map(|(key, _)| key.replace('#', ""))
        };
        let of_kind: Vec<_> = of("idem").collect();
        assert!(of("idem:count").any(|key| of_kind.contains(&key)));
    }

    #[test]
    fn a_prefix_contains_no_hash_sign() {
        for prefix in ["idem:#count", "#", "idem:#tx:orders.pay"] {
            assert!(why_no_prefix(prefix).is_some(), "{prefix}");
        }
    }

    #[test]
    fn a_key_contains_its_prefix_kind_endpoint_and_fingerprint() {
        let endpoint = Endpoint::named("orders.pay");
        let fingerprint = Fingerprint::of(&(1,)).unwrap();
        assert_eq!(
            key_of_call("shop", &endpoint, &fingerprint),
            format!("shop:orders.pay:{fingerprint}")
        );
        let name = format_args!("{endpoint}:{fingerprint}");
        assert_eq!(
            RecordKind::Tx.key("shop", name),
            format!("shop:#tx:orders.pay:{fingerprint}")
        );
    }
}
