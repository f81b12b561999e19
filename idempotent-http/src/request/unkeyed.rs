//! A warning about requests without a key, of a layer whose program has named where the key is.
//!
//! Such a request passes, and nothing guards it. If its client sends the key in another way than the program has named, nobody would
//! notice it before the first double charge.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// The routes that the log has named.
#[derive(Debug, Default)]
pub(crate) struct Unkeyed(RwLock<HashSet<String>>);

impl Unkeyed {
    /// Notes a request of this route. The log names each route once, with the reason.
    pub(crate) fn note(&self, route: &str, why: impl FnOnce() -> String) {
        let is_known = |routes: &HashSet<String>| routes.contains(route);
        if is_known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // A program has fewer routes, unless it makes them from data.
        if routes.len() < MOST_ROUTES && routes.insert(route.to_owned()) {
            drop(routes);
            tracing::warn!(
                target: "idempotence", "a request to `{route}` has no key, so nothing guards it: {}; `require_key` refuses such requests", why()
            );
        }
    }
}

const MOST_ROUTES: usize = 4096;
