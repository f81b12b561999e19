//! What a program has chosen for a layer.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use ::http::Method;
use ::http::header::{HeaderName, HeaderValue};
use idempotent_runtime::Idempotency;

use crate::layer::config::{Config, OnReject};
use crate::layer::configured::ConfiguredRoutes;
use crate::layer::options::RouteOptions;
use crate::profile::Profile;
use crate::request::key::source::KeySource;
use crate::request::key::text::KeySyntax;
use crate::request::route::Named;
use crate::request::scope::Scope;
use crate::request::unkeyed::Unkeyed;

/// The options of a builder. `None` is what the profile says, or nothing.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) profile: Profile,
    pub(super) methods: Option<Vec<Method>>,
    pub(super) key: Option<KeySource>,
    pub(super) syntax: Option<KeySyntax>,
    pub(super) marker: Option<HeaderName>,
    /// Nothing marks a replay, also if the profile has a mark.
    pub(super) is_unmarked: bool,
    pub(super) docs: Option<Box<str>>,
    pub(super) challenge: Option<HeaderValue>,
    pub(super) on_reject: Option<OnReject>,
    pub(super) options: Arc<RouteOptions>,
    pub(super) routes: HashMap<String, Arc<RouteOptions>>,
    pub(super) route: Option<Named>,
    pub(super) unary: Vec<String>,
}

impl Chosen {
    /// The options of the layer: the profile sets what was not chosen.
    pub(super) fn complete(mut self, idempotency: Idempotency, scope: Scope) -> Config {
        let table = self.profile.table();
        for method in &self.unary {
            let options = || Arc::clone(&self.options);
            self.routes.entry(method.clone()).or_insert_with(options);
        }
        for options in iter::once(&mut self.options).chain(self.routes.values_mut()) {
            Arc::make_mut(options).complete(table);
        }
        let of_table = table.marker.as_ref().filter(|_| !self.is_unmarked);
        Config {
            idempotency,
            scope,
            table,
            methods: self.methods.unwrap_or_else(|| table.methods.to_vec()),
            unkeyed: self.key.is_some().then(Unkeyed::default),
            key: self
                .key
                .unwrap_or_else(|| KeySource::header(table.key.clone())),
            syntax: self.syntax.unwrap_or(table.syntax),
            marker: self.marker.or_else(|| of_table.cloned()),
            docs: self.docs,
            challenge: self.challenge,
            on_reject: self.on_reject,
            has_unguarded: self.routes.values().any(|options| !options.is_guarded),
            seen_routes: Arc::new(ConfiguredRoutes::new(self.routes.keys().cloned())),
            options: self.options,
            routes: self.routes,
            unary: self.unary.into_iter().collect(),
            route: self.route,
        }
    }

    /// Whether this is the name of the option `route`.
    pub(super) fn is_named(&self, name: &str) -> bool {
        match &self.route {
            Some(Named::Endpoint(endpoint)) => endpoint.as_str() == name,
            Some(Named::Route(_)) | None => false,
        }
    }
}
