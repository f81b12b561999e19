//! The schemes of URLs that other crates add.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::contract::Store;
use crate::error::store::StoreError;

/// The future of [`UrlScheme`]: a store, or why there is none.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>>;

/// Schemes of URLs, and the function that connects to their store.
///
/// [`register_url_scheme!`](crate::register_url_scheme) adds them to [`Idempotency::from_url`](crate::Idempotency::from_url) in each
/// program that links the crate:
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::sync::Arc;
///
/// use idempotence::MemoryStore;
/// use idempotence::store::{Connecting, UrlScheme, register_url_scheme};
///
/// fn connect(url: String) -> Connecting {
///     Box::pin(async move {
///         assert_eq!(url, "map://here");
///         Ok(Arc::new(MemoryStore::new()) as _)
///     })
/// }
///
/// register_url_scheme!(UrlScheme::new("map", &["map", "maps"], connect));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotence::SetupError> {
/// let idempotency = idempotence::Idempotency::from_url("map://here").await?;
/// # let _ = idempotency;
/// # Ok(()) }
/// ```
///
/// Of two equal schemes any one counts.
pub struct UrlScheme {
    name: &'static str,
    schemes: &'static [&'static str],
    connect: fn(String) -> Connecting,
}

impl UrlScheme {
    /// Adds `schemes`, in small letters, of the store with this `name`. `connect` gets the whole URL. Its error must not repeat a
    /// password.
    ///
    /// # Panics
    ///
    /// If a store of this crate has one of the schemes, also without its feature, or if one begins with `redis`, `valkey` or `unix`. In
    /// [`register_url_scheme!`](crate::register_url_scheme) that does not compile.
    pub const fn new(
        name: &'static str,
        schemes: &'static [&'static str],
        connect: fn(String) -> Connecting,
    ) -> Self {
        let mut rest = schemes;
        while let [scheme, others @ ..] = rest {
            assert!(
                !is_built_in(scheme),
                "a store of the crate `idempotence` has this scheme of a URL, or this one begins with `redis`, `valkey` or `unix`: choose another"
            );
            rest = others;
        }
        Self::built_in(name, schemes, connect)
    }

    /// As [`new`](Self::new), for the stores of this crate.
    #[doc(hidden)]
    pub const fn built_in(
        name: &'static str,
        schemes: &'static [&'static str],
        connect: fn(String) -> Connecting,
    ) -> Self {
        Self {
            name,
            schemes,
            connect,
        }
    }

    /// The registered store with this scheme.
    pub(crate) fn find(scheme: &str) -> Option<&'static Self> {
        Self::all().find(|registered| registered.schemes.contains(&scheme))
    }

    /// All that are registered in this program.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        inventory::iter::<Self>.into_iter()
    }

    /// The name of the store.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its schemes.
    pub(crate) fn schemes(&self) -> &'static [&'static str] {
        self.schemes
    }

    pub(crate) fn connect(&self, url: &str) -> Connecting {
        (self.connect)(url.to_owned())
    }
}

/// How the schemes of Redis begin. The store gets misspelled ones, too, and says what is wrong.
pub(crate) const OF_REDIS: [&str; 3] = ["redis", "valkey", "unix"];

const OF_OTHERS: [&str; 9] = [
    "dynamodb",
    "etcd",
    "etcds",
    "mariadb",
    "memory",
    "mysql",
    "postgres",
    "postgresql",
    "sqlite",
];

const fn is_built_in(scheme: &str) -> bool {
    let mut i = 0;
    while i < OF_OTHERS.len() {
        if OF_OTHERS[i].len() == scheme.len() && begins_with(scheme, OF_OTHERS[i]) {
            return true;
        }
        i += 1;
    }
    begins_with(scheme, OF_REDIS[0])
        || begins_with(scheme, OF_REDIS[1])
        || begins_with(scheme, OF_REDIS[2])
}

const fn begins_with(text: &str, start: &str) -> bool {
    let (mut text, mut start) = (text.as_bytes(), start.as_bytes());
    while let [wanted, more @ ..] = start {
        match text {
            [byte, rest @ ..] if *byte == *wanted => (text, start) = (rest, more),
            _ => return false,
        }
    }
    true
}

impl fmt::Debug for UrlScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlScheme")
            .field("name", &self.name)
            .field("schemes", &self.schemes)
            .finish_non_exhaustive()
    }
}

inventory::collect!(UrlScheme);

/// Adds a [`UrlScheme`](crate::store::UrlScheme) to every program that links the crate with this line.
#[macro_export]
macro_rules! register_url_scheme {
    ($scheme:expr $(,)?) => {
        $crate::private::inventory::submit! { $scheme }
    };
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn a_scheme_of_a_built_in_store_is_refused() {
        fn connect(_: String) -> Connecting {
            Box::pin(std::future::pending())
        }

        let is_refused = |schemes| {
            let registered = panic::catch_unwind(|| UrlScheme::new("map", schemes, connect));
            registered.is_err()
        };
        for schemes in [
            &["redis"][..],
            &["map", "rediss-cluster"],
            &["valkeys"],
            &["redisearch"],
            &["unixodbc"],
            &["postgresql"],
            &["memory"],
            &["etcds", "map"],
            &["dynamodb"],
        ] {
            assert!(is_refused(schemes), "{schemes:?}");
        }
        assert!(!is_refused(&["map", "my-redis", "etc", "sqlite-cloud"]));
    }
}
