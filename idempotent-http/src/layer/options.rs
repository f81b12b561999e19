//! What may differ between routes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderName};
use idempotent_runtime::Policy;

use crate::profile::table::Table;
use crate::request::content_type;
use crate::request::payload::Payload;
use crate::response::decision::StoreIf;

/// The options of one route: see [`LayerBuilder::for_route`](crate::LayerBuilder::for_route).
#[derive(Clone)]
pub struct RouteOptions {
    /// `None`: as the profile says.
    pub(crate) requires_key: Option<bool>,
    /// `None`: as the profile says.
    pub(crate) ttl: Option<Duration>,
    /// `None`: as the profile says.
    pub(crate) payload: Option<Payload>,
    pub(crate) is_guarded: bool,
    pub(crate) policy: Policy,
    pub(crate) store_if: Option<StoreIf>,
    pub(crate) request_limit: usize,
    pub(crate) response_limit: usize,
    pub(crate) is_stream: bool,
    pub(crate) kept_headers: Option<Arc<[HeaderName]>>,
}

impl RouteOptions {
    /// Lets all requests of this route pass, also requests with a key: nothing guards them. For example for uploads, or for a handler
    /// that guards itself. With [`Profile::Repeatability`](crate::Profile::Repeatability) a request with a key gets 501 instead.
    #[must_use]
    pub fn unguarded(mut self) -> Self {
        self.is_guarded = false;
        self
    }

    /// Sets what was not chosen.
    pub(crate) fn complete(&mut self, table: &Table) {
        self.requires_key.get_or_insert(table.requires_key);
        self.payload.get_or_insert_with(table.payload);
        let has_default_ttl = self.ttl.is_none();
        let ttl = *self.ttl.get_or_insert(table.ttl);
        self.policy = self
            .policy
            .of_layer(ttl, has_default_ttl, table.shares_keys);
    }

    pub(crate) fn requires_key(&self) -> bool {
        self.requires_key.unwrap_or_default()
    }

    /// Whether a response with these headers is a stream, which is not read into memory.
    pub(crate) fn streams(&self, headers: &HeaderMap) -> bool {
        let content_type = headers.get(header::CONTENT_TYPE);
        self.is_stream || content_type::is_stream(content_type)
    }
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self {
            requires_key: None,
            ttl: None,
            payload: None,
            is_guarded: true,
            policy: Policy::new(DAY).replay(),
            store_if: None,
            request_limit: MEBIBYTE,
            response_limit: MEBIBYTE,
            is_stream: false,
            kept_headers: None,
        }
    }
}

impl fmt::Debug for RouteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteOptions")
            .field("requires_key", &self.requires_key)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

const DAY: Duration = Duration::from_hours(24);
const MEBIBYTE: usize = 1024 * 1024;
