//! Connects to the store that a URL names.

use std::sync::Arc;

use crate::error::SetupError;
use crate::store::memory::MemoryStore;
use crate::store::{OF_REDIS, Store, UrlScheme};

/// Connects to the store that `url` names.
pub(super) async fn connect(url: &str) -> Result<Arc<dyn Store>, SetupError> {
    match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        "memory" if url == "memory:" => Ok(Arc::new(MemoryStore::new())),
        // The other stores are in crates of their own, which a feature links.
        scheme => match (UrlScheme::find(family_of(scheme)), feature_of(scheme)) {
            (Some(registered), _) => registered.connect(url).await.map_err(|error| {
                let what = format!("cannot use the {} of this URL", registered.name());
                SetupError::caused(what, error)
            }),
            (None, Some((name, feature))) => Err(SetupError::new(format!(
                "a URL of {name} needs the feature {feature} of the crate `idempotence`"
            ))),
            (None, None) => Err(unknown_scheme(url)),
        },
    }
}

/// The scheme by which a store is found. The Redis store gets also misspelled schemes, and says what is wrong.
fn family_of(scheme: &str) -> &str {
    let is_redis = |start| scheme.starts_with(start);
    if OF_REDIS.into_iter().any(is_redis) {
        REDIS
    } else {
        scheme
    }
}

const REDIS: &str = "redis";

/// The name of the store with this scheme, and the feature that links its crate.
fn feature_of(scheme: &str) -> Option<(&'static str, &'static str)> {
    match family_of(scheme) {
        "dynamodb" => Some(("dynamodb", "`dynamodb`")),
        "etcd" | "etcds" => Some(("etcd", "`etcd`")),
        "postgres" | "postgresql" => Some(("PostgreSQL", "`postgres`")),
        "mysql" | "mariadb" => Some(("MySQL", "`mysql`")),
        "sqlite" => Some(("SQLite", "`sqlite`")),
        // A URL with TLS needs another feature, which enables `redis`.
        REDIS if scheme.starts_with("rediss") || scheme == "valkeys" => {
            Some(("Redis", "`redis-rustls`, or `redis-native-tls`,"))
        }
        REDIS => Some(("Redis", "`redis`")),
        _ => None,
    }
}

fn unknown_scheme(url: &str) -> SetupError {
    // The scheme is not repeated: it may be a part of a password.
    let what = if url.is_empty() {
        "the URL of the store is empty"
    } else if url.contains("://") {
        "no store has the scheme of this URL"
    } else {
        "the URL of the store has no known scheme"
    };
    let more = UrlScheme::all().flat_map(UrlScheme::schemes);
    let more = more.filter(|scheme| feature_of(scheme).is_none());
    let more: Vec<_> = more.map(|scheme| format!("`{scheme}://…`, ")).collect();
    let more = more.concat();
    SetupError::new(format!(
        "{what}: write `memory:`, {more}or with the feature of its name \
         `redis://host:port/` (also `redis-cluster`, `redis-sentinel`; `rediss` with `redis-rustls`), \
         `postgres://host:port/database`, `mysql://host:port/database`, `sqlite:file`, `etcd://host:port`, \
         `dynamodb://table`, in small letters"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreError, StoreErrorKind};

    #[tokio::test]
    async fn the_error_for_a_missing_feature_names_it() {
        for (url, feature) in [
            ("redis://localhost/", "redis"),
            ("valkey://localhost/", "redis"),
            ("rediss://localhost/", "redis-rustls"),
            ("rediss-cluster://localhost/", "redis-rustls"),
            ("valkeys://localhost/", "redis-rustls"),
            ("postgres://u:s3cret@h/d", "postgres"),
            ("postgresql://u:s3cret@h/d", "postgres"),
            ("mysql://u:s3cret@h/d", "mysql"),
            ("mariadb://u:s3cret@h/d", "mysql"),
            ("sqlite:file", "sqlite"),
            ("dynamodb://s3cret", "dynamodb"),
            ("etcd://u:s3cret@h", "etcd"),
            ("etcds://u:s3cret@h", "etcd"),
        ] {
            let text = connect(url).await.expect_err(url).to_string();
            assert!(text.contains(&format!("the feature `{feature}`")), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[tokio::test]
    async fn the_error_for_an_unknown_scheme_says_what_is_wrong() {
        for (url, what) in [
            ("", "the URL of the store is empty: write `memory:`"),
            (
                "reddis://u:s3cret@host",
                "no store has the scheme of this URL: write",
            ),
            (
                "u:s3cret@host",
                "the URL of the store has no known scheme: write",
            ),
        ] {
            let text = connect(url).await.expect_err(url).to_string();
            assert!(text.starts_with(what), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    crate::register_url_scheme!(UrlScheme::new("map", &["map"], |url| Box::pin(
        async move {
            match url.as_str() {
                "map://here" => Ok(Arc::new(MemoryStore::new()) as _),
                _ => Err(StoreError::new(StoreErrorKind::Misconfigured, "404").place("the map")),
            }
        }
    )));

    #[tokio::test]
    async fn a_registered_scheme_connects_to_its_store() {
        connect("map://here").await.expect("a store");
        let text = connect("map://there").await.expect_err("404").to_string();
        let expected = "cannot use the map of this URL: the map is not set up for this operation";
        assert_eq!(text, expected);
        let text = connect("mop://here").await.expect_err("mop").to_string();
        assert!(text.contains("`map://…`"), "{text}");
    }

    #[tokio::test]
    async fn the_error_for_an_unknown_scheme_lists_the_known_schemes() {
        for url in [
            "",
            "memory",
            "memory:x",
            "http://u:s3cret@host",
            "postgres2:",
        ] {
            let text = connect(url).await.expect_err(url).to_string();
            for scheme in [
                "`memory:`",
                "with the feature of its name `redis://",
                "`rediss` with `redis-rustls`",
                "`etcd://",
            ] {
                assert!(text.contains(scheme), "{text}");
            }
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
