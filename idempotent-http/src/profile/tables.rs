//! The four tables. The docs of `Profile` name their public texts.

use std::time::Duration;

use ::http::{HeaderName, Method};

use super::table::{BodyForm, Table};
use crate::catalog;
use crate::request::key::text::KeySyntax;
use crate::request::payload::Payload;

const DAY: Duration = Duration::from_hours(24);

pub(super) static IETF: Table = Table {
    key: HeaderName::from_static("idempotency-key"),
    syntax: KeySyntax::Lenient,
    requires_key: false,
    client: None,
    first_sent: None,
    methods: &[Method::POST, Method::PATCH],
    refuses_unguarded: false,
    shares_keys: false,
    path_in_key: false,
    payload: Payload::raw,
    ttl: DAY,
    stored: &[200..=399, 402..=402, 404..=404, 409..=410],
    held: &[408, 504],
    marker: Some(HeaderName::from_static("idempotency-replayed")),
    result: None,
    echoes_key: false,
    retry: None,
    body: BodyForm::Problem,
    refusals: &[],
};

pub(super) static STRIPE: Table = Table {
    key: HeaderName::from_static("idempotency-key"),
    syntax: KeySyntax::Opaque,
    requires_key: false,
    client: Some(HeaderName::from_static("stripe-account")),
    first_sent: None,
    methods: &[Method::POST],
    refuses_unguarded: false,
    shares_keys: true,
    path_in_key: false,
    payload: Payload::form,
    ttl: DAY,
    stored: &[
        200..=399,
        402..=402,
        404..=404,
        410..=410,
        424..=424,
        500..=599,
    ],
    held: &[408],
    marker: Some(HeaderName::from_static("idempotent-replayed")),
    result: None,
    echoes_key: true,
    retry: Some(HeaderName::from_static("stripe-should-retry")),
    body: BodyForm::Nested {
        fault: "invalid_request_error",
        failure: "api_error",
    },
    refusals: catalog::STRIPE,
};

pub(super) static ACP: Table = Table {
    key: HeaderName::from_static("idempotency-key"),
    syntax: KeySyntax::Opaque,
    requires_key: true,
    client: None,
    first_sent: None,
    methods: &[Method::POST],
    refuses_unguarded: false,
    shares_keys: false,
    path_in_key: true,
    payload: Payload::json,
    ttl: DAY,
    stored: &[200..=407, 409..=499],
    held: &[408],
    marker: Some(HeaderName::from_static("idempotent-replayed")),
    result: None,
    echoes_key: true,
    retry: None,
    body: BodyForm::Flat {
        fault: "invalid_request",
        failure: "processing_error",
        unavailable: "service_unavailable",
    },
    refusals: catalog::ACP,
};

pub(super) static REPEATABILITY: Table = Table {
    key: HeaderName::from_static("repeatability-request-id"),
    syntax: KeySyntax::Opaque,
    requires_key: false,
    client: Some(HeaderName::from_static("repeatability-client-id")),
    first_sent: Some(HeaderName::from_static("repeatability-first-sent")),
    methods: &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE],
    refuses_unguarded: true,
    shares_keys: false,
    path_in_key: false,
    payload: Payload::raw,
    ttl: DAY,
    stored: &[200..=407, 409..=499],
    held: &[408],
    marker: None,
    result: Some(HeaderName::from_static("repeatability-result")),
    echoes_key: false,
    retry: None,
    body: BodyForm::Coded,
    refusals: catalog::REPEATABILITY,
};
