//! The endpoint of a request: its method and the route that matched it.
//!
//! The path of a request is never an endpoint: a path contains ids, so there would be an endpoint for each order. In a nested
//! router it is also the rest of the path, so `/a/orders` and `/b/orders` would share their keys.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{LazyLock, PoisonError, RwLock};

#[cfg(feature = "axum")]
use ::axum::extract::MatchedPath;
use ::http::Method;
use ::http::request::Parts;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use idempotent_runtime::port::http::{Endpoint, InvalidName, RouteName};

use crate::catalog::{self, Row};

/// What a layer is named after, where no router says the route of a request.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    /// A route, such as `/orders/{id}/pay`. Each method of it is an endpoint.
    Route(Cow<'static, str>),
    /// An endpoint for all requests, such as `orders.pay`.
    Endpoint(Endpoint),
}

impl Named {
    /// Reads the name of a layer: a text that begins with `/` is a route, any other text is the name of an endpoint.
    pub(crate) fn new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidName> {
        let name = name.into();
        if name.starts_with('/') {
            RouteName::new("POST", &name)?;
            return Ok(Self::Route(name));
        }
        Endpoint::try_new(name).map(Self::Endpoint)
    }
}

/// Why a request has no endpoint.
#[derive(Debug)]
pub(crate) enum NoRoute {
    /// No router says which route matched, and the layer has no name.
    Unknown,
    /// The route cannot name an endpoint.
    Invalid(InvalidName),
}

impl NoRoute {
    pub(crate) fn row(&self) -> &'static Row {
        match self {
            Self::Unknown => &catalog::ROUTE_UNKNOWN,
            Self::Invalid(_) => &catalog::ROUTE_INVALID,
        }
    }
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(UNKNOWN),
            Self::Invalid(name) => name.fmt(f),
        }
    }
}

#[cfg(all(feature = "axum", feature = "actix"))]
const UNKNOWN: &str = "the route of the request is not known: with axum add the layer by `Router::route_layer`; with actix wrap resources instead of the whole `App`; or give the layer a name";
#[cfg(all(feature = "axum", not(feature = "actix")))]
const UNKNOWN: &str = "the route of the request is not known: add the layer by `Router::route_layer` of axum, or give the layer a name";
#[cfg(all(feature = "actix", not(feature = "axum")))]
const UNKNOWN: &str = "the route of the request is not known: no resource of actix has its path; wrap resources instead of the whole `App`, or give the layer a name";
#[cfg(not(any(feature = "actix", feature = "axum")))]
const UNKNOWN: &str = "the route of the request is not known: with axum enable the feature `axum` of this crate, else give the layer a name";

/// The route that the router of axum or actix has matched, such as `/orders/{id}/pay`.
pub(crate) fn matched_route(parts: &Parts) -> Option<&str> {
    matched_by_axum(parts).or_else(|| matched_by_actix(parts))
}

#[cfg(feature = "axum")]
fn matched_by_axum(parts: &Parts) -> Option<&str> {
    parts.extensions.get().map(MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
fn matched_by_axum(_: &Parts) -> Option<&str> {
    None
}

/// The pattern of the resource of actix that a request has matched, with the patterns of its scopes.
#[cfg(feature = "actix")]
#[derive(Debug, Clone)]
pub(crate) struct MatchedPattern(pub(crate) Box<str>);

#[cfg(feature = "actix")]
fn matched_by_actix(parts: &Parts) -> Option<&str> {
    let matched = parts.extensions.get();
    matched.map(|MatchedPattern(pattern)| &**pattern)
}

#[cfg(not(feature = "actix"))]
fn matched_by_actix(_: &Parts) -> Option<&str> {
    None
}

/// The endpoint of a request: its method and the route that the router matched, else the name of the layer.
pub(crate) fn route_of(parts: &Parts, named: Option<&Named>) -> Result<Endpoint, NoRoute> {
    if let Some(path) = matched_route(parts) {
        return endpoint_of(&parts.method, path).map_err(NoRoute::Invalid);
    }
    match named {
        Some(Named::Route(path)) => endpoint_of(&parts.method, path).map_err(NoRoute::Invalid),
        Some(Named::Endpoint(endpoint)) => Ok(endpoint.clone()),
        None => Err(NoRoute::Unknown),
    }
}

/// The endpoint of a method and a route.
///
/// The names of the first [`MOST_ROUTES`] routes are kept for the life of the program, so a later call with the same route
/// allocates nothing.
pub(crate) fn endpoint_of(method: &Method, path: &str) -> Result<Endpoint, InvalidName> {
    thread_local! {
        /// The latest routes of this thread, so that most requests take no lock.
        static RECENT: [Cell<Option<&'static RouteName>>; 16] = const { [const { Cell::new(None) }; 16] };
    }
    static ROUTES: LazyLock<Routes> = LazyLock::new(|| Routes::up_to(MOST_ROUTES));

    let method = method.as_str();
    let hash = hash_of(method, path);
    RECENT.with(|recent| {
        let recent = &recent[usize::from(hash.to_le_bytes()[0]) % recent.len()];
        if let Some(route) = recent.get().filter(|route| route.is(method, path)) {
            return Ok(Endpoint::of_route(route));
        }
        match ROUTES.find_or_keep(method, path, hash)? {
            Found::Kept(route) => {
                recent.set(Some(route));
                Ok(Endpoint::of_route(route))
            }
            Found::Uncached(route) => Ok(Endpoint::of_dynamic_route(route)),
        }
    })
}

/// The maximum number of routes that are kept. A program has fewer routes, unless it makes them from data.
const MOST_ROUTES: usize = 4096;

/// The routes that are kept for the life of the program.
struct Routes {
    kept: RwLock<HashTable<&'static RouteName>>,
    most: usize,
}

enum Found {
    Kept(&'static RouteName),
    Uncached(RouteName),
}

impl Routes {
    fn up_to(most: usize) -> Self {
        let kept = RwLock::default();
        Self { kept, most }
    }

    fn find_or_keep(&self, method: &str, path: &str, hash: u64) -> Result<Found, InvalidName> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = kept.find(hash, |route| route.is(method, path)) {
            return Ok(Found::Kept(route));
        }
        let is_full = kept.len() >= self.most;
        drop(kept);
        let route = RouteName::new(method, path)?;
        if is_full {
            return Ok(Found::Uncached(route));
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = kept.find(hash, |route| route.is(method, path)) {
            return Ok(Found::Kept(route));
        }
        if kept.len() >= self.most {
            return Ok(Found::Uncached(route));
        }
        let route: &'static RouteName = Box::leak(Box::new(route));
        kept.insert_unique(hash, route, |route| {
            let (method, path) = route.parts();
            hash_of(method, path)
        });
        Ok(Found::Kept(route))
    }
}

/// Routes are texts of the program, so no attacker chooses their hashes.
fn hash_of(method: &str, path: &str) -> u64 {
    FixedState::default().hash_one((method, path))
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;

    fn named(path: &str) -> Endpoint {
        endpoint_of(&Method::POST, path).unwrap()
    }

    fn parts(uri: &str) -> Parts {
        Request::post(uri).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_route_is_known_by_its_own_spelling_and_has_a_form_in_keys() {
        let endpoint = named("/orders/{id}/pay");
        assert_eq!(endpoint.to_string(), "POST /orders/{id}/pay");
        assert_eq!(endpoint.in_key(), "POST./orders/(id)/pay");
        let called = Endpoint::called("POST /orders/{id}/pay").unwrap();
        assert_eq!(endpoint, called);
    }

    #[test]
    fn a_method_and_a_path_are_one_endpoint_in_every_thread() {
        let first = named("/threads/{id}").of_the_program().unwrap();
        let elsewhere = std::thread::spawn(|| named("/threads/{id}").of_the_program().unwrap());
        for again in [
            elsewhere.join().unwrap(),
            named("/threads/{id}").of_the_program().unwrap(),
        ] {
            // The same text in memory: nothing was made again.
            assert!(std::ptr::eq(first, again));
        }
        let patch = endpoint_of(&Method::PATCH, "/threads/{id}").unwrap();
        assert_eq!(patch.as_str(), "PATCH /threads/{id}");
    }

    #[test]
    fn routes_in_one_place_of_a_thread_do_not_replace_each_other() {
        for _ in 0..2 {
            for number in 0..100 {
                let path = format!("/many/{number}");
                assert_eq!(named(&path).as_str(), format!("POST {path}"));
            }
        }
    }

    #[test]
    fn routes_made_from_data_are_kept_up_to_a_bound() {
        let routes = Routes::up_to(2);
        let kept = |path: &str| {
            let found = routes.find_or_keep("POST", path, hash_of("POST", path));
            matches!(found.unwrap(), Found::Kept(_))
        };
        assert_eq!(
            ["/1", "/2", "/3", "/1", "/2", "/4"].map(kept),
            [true, true, false, true, true, false]
        );
    }

    #[test]
    fn a_layer_may_be_named_after_a_route_or_an_endpoint() {
        let of = |name: &'static str| {
            let named = Named::new(name).unwrap();
            route_of(&parts("/orders/7"), Some(&named))
                .unwrap()
                .to_string()
        };
        assert_eq!(of("/orders/{id}"), "POST /orders/{id}");
        assert_eq!(of("orders.pay"), "orders.pay");
        for name in ["", "orders pay", "/orders pay", "POST /orders", "{id}"] {
            assert!(Named::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_request_without_a_route_has_no_endpoint() {
        let error = route_of(&parts("/orders/7"), None).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the route of the request is not known"),
            "{error}"
        );
    }

    #[cfg(feature = "axum")]
    mod in_axum {
        use ::axum::Router;
        use ::axum::body::{Body, to_bytes};
        use ::axum::extract::Request;
        use ::axum::routing::post;
        use tower_service::Service;

        use super::*;

        /// What the handler that gets the request sees as its endpoint.
        async fn shown(request: Request) -> String {
            let named = Named::new("fallback").unwrap();
            let endpoint = route_of(&request.into_parts().0, Some(&named));
            endpoint.map_or_else(|error| error.to_string(), |endpoint| endpoint.to_string())
        }

        async fn endpoint_in(router: &Router, uri: &str) -> String {
            let request = Request::post(uri).body(Body::empty()).unwrap();
            let response = router.clone().call(request).await.unwrap();
            let body = to_bytes(response.into_body(), 10_000).await.unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        }

        #[tokio::test]
        async fn nested_routers_with_equal_tails_are_different_endpoints() {
            let orders = || Router::new().route("/orders/{id}", post(shown));
            let router = Router::new()
                .nest("/a", orders())
                .nest("/b", Router::new().nest("/c", orders()));
            assert_eq!(
                endpoint_in(&router, "/a/orders/7").await,
                "POST /a/orders/{id}"
            );
            assert_eq!(
                endpoint_in(&router, "/b/c/orders/7").await,
                "POST /b/c/orders/{id}"
            );
        }

        #[tokio::test]
        async fn wildcards_and_odd_characters_are_part_of_an_endpoint() {
            let router = Router::new()
                .route("/files/{*path}", post(shown))
                .route("/v1/orders:cancel/{id}", post(shown));
            assert_eq!(
                endpoint_in(&router, "/files/a/b").await,
                "POST /files/{*path}"
            );
            assert_eq!(
                endpoint_in(&router, "/v1/orders:cancel/7").await,
                "POST /v1/orders:cancel/{id}"
            );
        }

        #[tokio::test]
        async fn a_request_that_no_route_matches_has_the_name_of_the_layer() {
            let router = Router::new().fallback(shown);
            assert_eq!(endpoint_in(&router, "/orders/7").await, "fallback");
        }
    }
}
