//! The routes to which a program gives options in code, and whether requests have them.
//!
//! No router lists its routes, so a misspelled route is not an error at the start: it would lose its options without a word.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotent_runtime::port::http::{Watched, closest};
use idempotent_runtime::store::{Finding, Level};

/// The routes of one layer that have options of their own.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredRoutes {
    routes: Vec<ConfiguredRoute>,
    /// The layer has had a request.
    has_requests: AtomicBool,
    /// Each route has had a request.
    all_matched: AtomicBool,
}

/// A route that has options of its own.
#[derive(Debug)]
struct ConfiguredRoute {
    route: String,
    /// A request has had this route.
    is_matched: AtomicBool,
    /// The route of a request that is similar, and has no options of its own.
    similar: OnceLock<String>,
}

/// A route that has had no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnmatchedRoute {
    pub(crate) route: String,
    /// The route of a request that is similar, and has no options of its own.
    similar: Option<String>,
}

impl ConfiguredRoutes {
    pub(crate) fn new(routes: impl IntoIterator<Item = String>) -> Self {
        let routes = routes.into_iter().map(|route| ConfiguredRoute {
            route,
            is_matched: AtomicBool::new(false),
            similar: OnceLock::new(),
        });
        let routes: Vec<_> = routes.collect();
        Self {
            all_matched: AtomicBool::new(routes.is_empty()),
            routes,
            has_requests: AtomicBool::new(false),
        }
    }

    /// Notes that a request has this route. The first request whose route is similar to a configured route, and has no options of
    /// its own, is in the log.
    pub(crate) fn note(&self, route: &str) {
        if self.all_matched.load(Ordering::Relaxed) {
            return;
        }
        self.has_requests.store(true, Ordering::Relaxed);
        if let Some(configured) = self.routes.iter().find(|known| known.route == route) {
            configured.is_matched.store(true, Ordering::Relaxed);
            let all = self.routes.iter().all(ConfiguredRoute::is_matched);
            self.all_matched.store(all, Ordering::Relaxed);
            return;
        }
        for configured in &self.routes {
            configured.note_other(route);
        }
    }

    /// The routes that have had no request, if the layer has had a request at all.
    pub(crate) fn unmatched(&self) -> Vec<UnmatchedRoute> {
        if !self.has_requests.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let unmatched = self.routes.iter().filter(|route| !route.is_matched());
        unmatched.map(ConfiguredRoute::unmatched).collect()
    }
}

impl Watched for ConfiguredRoutes {
    fn findings(&self) -> Vec<Finding> {
        self.unmatched()
            .iter()
            .map(UnmatchedRoute::finding)
            .collect()
    }
}

impl ConfiguredRoute {
    fn is_matched(&self) -> bool {
        self.is_matched.load(Ordering::Relaxed)
    }

    fn unmatched(&self) -> UnmatchedRoute {
        UnmatchedRoute {
            route: self.route.clone(),
            similar: self.similar.get().cloned(),
        }
    }

    /// Notes that a request has another route, without options of its own.
    fn note_other(&self, other: &str) {
        if self.is_matched() || self.similar.get().is_some() || !is_similar(&self.route, other) {
            return;
        }
        if self.similar.set(other.to_owned()).is_ok() {
            let unmatched = self.unmatched();
            tracing::warn!(target: "idempotence", "{unmatched}; {AS_THE_ROUTER}");
        }
    }
}

impl UnmatchedRoute {
    fn finding(&self) -> Finding {
        // The route is most likely wrong if a request has a similar route.
        let level = match self.similar {
            Some(_) => Level::Problem,
            None => Level::Note,
        };
        Finding::new(level, self.to_string()).advise(AS_THE_ROUTER)
    }
}

impl fmt::Display for UnmatchedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`for_route(\"{}\", …)` has had no guarded request yet",
            self.route
        )?;
        match &self.similar {
            Some(similar) => write!(
                f,
                ", but a request has the route `{similar}`, which has no options of its own"
            ),
            None => Ok(()),
        }
    }
}

/// What to do about an [`UnmatchedRoute`].
const AS_THE_ROUTER: &str =
    "write the whole route as the router matches it, with the prefixes of `Router::nest`";

/// Whether one route is the end of the other, or they differ in at most one misspelled segment. The names of parameters and the
/// case do not count.
fn is_similar(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (segments(one), segments(other));
    let (mut misspelled, mut has_literal) = (None, false);
    loop {
        let (a, b) = match (one.next(), other.next()) {
            (Some(a), Some(b)) => (a, b),
            (None, None) => return misspelled.is_none_or(|(a, b)| is_misspelled(a, b)),
            // One route has a prefix that the other does not have.
            _ => return has_literal && misspelled.is_none(),
        };
        has_literal |= !is_parameter(a);
        let is_same = a.eq_ignore_ascii_case(b) || is_parameter(a) && is_parameter(b);
        if !is_same && misspelled.replace((a, b)).is_some() {
            return false;
        }
    }
}

/// The segments of a route, from the last to the first.
fn segments(route: &str) -> impl Iterator<Item = &str> {
    route.trim_matches('/').rsplit('/')
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with(['{', ':', '*'])
}

/// Whether one text is a misspelling of the other. `v1` and `v2` are not.
fn is_misspelled(one: &str, other: &str) -> bool {
    let is_word = |text: &str| {
        text.len() > 2 && !is_parameter(text) && !text.contains(|c: char| c.is_ascii_digit())
    };
    is_word(one) && is_word(other) && closest(one, [other]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_prefix_and_a_misspelled_segment_are_similar() {
        for (one, other, expected) in [
            ("/orders", "/shop/orders", true),
            ("/api/shop/orders", "/orders", true),
            ("/orders/{id}/pay", "/shop/orders/{order}/pay", true),
            ("/orders/:id/pay", "/orders/{id}/pay", true),
            ("/orders/", "/Orders", true),
            ("/order/{id}/pay", "/orders/{id}/pay", true),
            ("/orders/{id}/pya", "/orders/{id}/pay", true),
            ("/orders/{id}", "/orders/{id}/pay", false),
            ("/orders/{id}/cancel", "/refunds/{id}/cancel", false),
            ("/v1/orders", "/v2/orders", false),
            ("/{id}", "/orders/{id}", false),
            ("/odrer/{id}/pya", "/orders/{id}/pay", false),
            ("/orders", "/notes", false),
            ("orders.place", "/orders", false),
        ] {
            assert_eq!(is_similar(one, other), expected, "{one} {other}");
            assert_eq!(is_similar(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn a_route_without_a_request_is_listed_after_the_first_request_of_the_layer() {
        let routes = ConfiguredRoutes::new(["/orders", "/reports"].map(str::to_owned));
        assert_eq!(routes.unmatched(), []);
        routes.note("/shop/orders");
        let unmatched = |route: &str, similar: Option<&str>| UnmatchedRoute {
            route: route.to_owned(),
            similar: similar.map(str::to_owned),
        };
        let reports = || unmatched("/reports", None);
        let orders = unmatched("/orders", Some("/shop/orders"));
        assert_eq!(routes.unmatched(), [orders, reports()]);
        routes.note("/orders");
        assert_eq!(routes.unmatched(), [reports()]);
        routes.note("/reports");
        assert_eq!(routes.unmatched(), []);
    }
}
