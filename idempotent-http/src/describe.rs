//! What the layer does with the requests of one operation, for documents about it.

use std::collections::BTreeMap;
use std::time::Duration;

use ::http::header;
use ::http::{Method, StatusCode};

use crate::catalog::{self, Row};
use crate::layer::IdempotencyLayer;
use crate::layer::options::RouteOptions;
use crate::profile::table::BodyForm;
use crate::request::key::text::KeySyntax;
use crate::request::key::usual_case;

/// What the layer does with the requests of one method of one route.
pub(crate) struct Operation {
    pub(crate) requires_key: bool,
    /// What the layer reads: the key, and the headers that belong to it. Empty if the key is in the body.
    pub(crate) reads: Vec<Read>,
    /// The codes of the refusals by their status.
    pub(crate) refusals: BTreeMap<u16, Vec<&'static str>>,
    /// The header of a replay.
    pub(crate) marker: Option<String>,
    /// The header that says whether the request was accepted.
    pub(crate) result: Option<String>,
    /// How long a response is stored.
    pub(crate) window: Duration,
    pub(crate) body: &'static BodyForm,
}

/// A header or a parameter of the query that the layer reads.
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) is_in_query: bool,
    pub(crate) is_required: bool,
    pub(crate) what: &'static str,
    /// Which values are keys, if it is the key.
    pub(crate) key: Option<KeySyntax>,
}

impl IdempotencyLayer {
    /// What the layer does with this method of this route; `None` if it does not guard it. The route is as in `OpenAPI`: the last
    /// part `{*path}` of a route of axum is `{path}` there.
    pub(crate) fn operation(&self, method: &Method, path: &str) -> Option<Operation> {
        let config = self.config();
        let options = self.options_of(path);
        if !config.methods.contains(method) || !options.is_guarded {
            return None;
        }
        let table = config.table;
        Some(Operation {
            requires_key: options.requires_key(),
            reads: self.reads(options),
            refusals: self.refusals(options),
            marker: config.marker.as_ref().map(usual_case),
            result: table.result.as_ref().map(usual_case),
            window: options.policy.ttl(),
            body: &table.body,
        })
    }

    fn options_of(&self, path: &str) -> &RouteOptions {
        let config = self.config();
        let is_route = |route: &str| route == path || route.replace("{*", "{") == path;
        let mut routes = config.routes.iter();
        let own = routes.find(|(route, _)| is_route(route));
        own.map_or(&config.options, |(_, options)| options)
    }

    fn reads(&self, options: &RouteOptions) -> Vec<Read> {
        let (config, table) = (self.config(), self.config().table);
        let is_required = options.requires_key();
        let read = |name: String, what| Read {
            name,
            is_in_query: false,
            is_required: false,
            what,
            key: None,
        };
        let key = |name: String| Read {
            is_required: is_required && config.key.is_single(),
            key: Some(config.syntax),
            ..read(
                name,
                "The key of this request. A repetition of the request with the same key gets the first response.",
            )
        };
        let headers = config.key.header_names().map(usual_case).map(key);
        let parameters = config.key.parameters().map(|name| Read {
            is_in_query: true,
            ..key(name.to_owned())
        });
        let mut reads: Vec<_> = headers.chain(parameters).collect();
        if reads.is_empty() {
            return reads;
        }
        reads.extend(table.first_sent.as_ref().map(|name| Read {
            is_required,
            ..read(
                usual_case(name),
                "When the request was first sent, as a date of HTTP. Required with the key.",
            )
        }));
        let client = "The id of the client. It is a part of the key.";
        reads.extend(
            table
                .client
                .as_ref()
                .map(|name| read(usual_case(name), client)),
        );
        reads
    }

    /// The refusals of a request that a client can cause or meet.
    fn refusals(&self, options: &RouteOptions) -> BTreeMap<u16, Vec<&'static str>> {
        let (config, table) = (self.config(), self.config().table);
        let scope = config.scope.missing().map(|missing| {
            if missing.is_authentication() && config.challenge.is_some() {
                StatusCode::UNAUTHORIZED
            } else {
                StatusCode::BAD_REQUEST
            }
        });
        let missing = options.requires_key().then_some(StatusCode::BAD_REQUEST);
        let has_first_sent = table.first_sent.is_some();
        let own = |row: &Row, is_possible: bool| (row.code, is_possible.then_some(row.status));
        let codes = [
            ("idempotency_key_missing", missing),
            ("idempotency_key_malformed", Some(StatusCode::BAD_REQUEST)),
            ("idempotency_key_repeated", Some(StatusCode::BAD_REQUEST)),
            own(&catalog::FIRST_SENT_MISSING, has_first_sent),
            own(&catalog::FIRST_SENT_MALFORMED, has_first_sent),
            own(&catalog::FIRST_SENT_OUTSIDE_WINDOW, has_first_sent),
            (catalog::CALLER_MISSING.code, scope),
            own(&catalog::REQUEST_TOO_LARGE, true),
            ("payload_mismatch", Some(StatusCode::UNPROCESSABLE_ENTITY)),
            ("in_progress", Some(StatusCode::CONFLICT)),
            ("outcome_unknown", Some(StatusCode::CONFLICT)),
            ("result_unavailable", Some(StatusCode::CONFLICT)),
            ("store_unavailable", Some(StatusCode::SERVICE_UNAVAILABLE)),
        ];
        let mut refusals = BTreeMap::<_, Vec<_>>::new();
        for (code, status) in codes {
            let form = table.form(code);
            let Some(status) = status.map(|status| form.map_or(status, |form| form.status)) else {
                continue;
            };
            // These forms always have the code of this crate.
            let name = match (&table.body, form) {
                (BodyForm::Problem | BodyForm::Coded, _) | (_, None) => code,
                (_, Some(form)) => form.name,
            };
            refusals.entry(status.as_u16()).or_default().push(name);
        }
        refusals
    }
}

/// The name of `Retry-After`, as people write it.
pub(crate) fn retry_after() -> String {
    usual_case(&header::RETRY_AFTER)
}
