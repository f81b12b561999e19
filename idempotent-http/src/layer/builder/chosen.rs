//! The options that replace what the profile says.

use std::sync::Arc;

use ::http::Method;
use ::http::header::HeaderName;

use crate::layer::config::Config;
use crate::profile::Profile;
use crate::request::key::source::KeySource;
use crate::request::key::text::KeySyntax;
use crate::request::unkeyed::Unkeyed;

/// The options that replace what the profile says.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) methods: Option<Vec<Method>>,
    pub(super) key: Option<KeySource>,
    pub(super) syntax: Option<KeySyntax>,
    pub(super) marker: Option<HeaderName>,
    /// Nothing marks a replay, also if the profile has a mark.
    pub(super) is_unmarked: bool,
    pub(super) unary: Vec<String>,
}

impl<S> Config<S> {
    /// Sets what was not chosen.
    pub(super) fn complete(&mut self, profile: Profile, chosen: Chosen) {
        let table = profile.table();
        self.table = table;
        self.methods = chosen.methods.unwrap_or_else(|| table.methods.to_vec());
        self.unkeyed = chosen.key.is_some().then(Unkeyed::default);
        let key = || KeySource::header(table.key.clone());
        self.key = chosen.key.unwrap_or_else(key);
        self.syntax = chosen.syntax.unwrap_or(table.syntax);
        let of_table = table.marker.as_ref().filter(|_| !chosen.is_unmarked);
        self.marker = chosen.marker.or_else(|| of_table.cloned());
        for method in &chosen.unary {
            let options = || Arc::clone(&self.options);
            self.routes.entry(method.clone()).or_insert_with(options);
        }
        self.unary = chosen.unary.into_iter().collect();
        for options in std::iter::once(&mut self.options).chain(self.routes.values_mut()) {
            Arc::make_mut(options).complete(table);
        }
        let mut routes = self.routes.values();
        self.has_unguarded = routes.any(|options| !options.is_guarded);
    }
}
