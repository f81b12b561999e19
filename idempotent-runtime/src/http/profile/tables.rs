//! The four tables. `docs/http-profiles.md` names the public text of each row.

use std::time::Duration;

use ::http::{HeaderName, Method, StatusCode};

use super::table::{BodyForm, Row, Table};
use crate::http::key::text::KeySyntax;
use crate::http::payload::Payload;

const DAY: Duration = Duration::from_hours(24);

pub(super) static IETF: Table = Table {
    key: HeaderName::from_static("idempotency-key"),
    syntax: KeySyntax::Lenient,
    requires_key: false,
    client: None,
    first_sent: None,
    methods: &[Method::POST, Method::PATCH],
    refuses_unguarded: false,
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
    client: None,
    first_sent: None,
    methods: &[Method::POST],
    refuses_unguarded: false,
    path_in_key: false,
    payload: Payload::raw,
    ttl: DAY,
    stored: &[
        200..=399,
        402..=402,
        404..=404,
        409..=410,
        424..=424,
        500..=599,
    ],
    held: &[408],
    marker: Some(HeaderName::from_static("idempotent-replayed")),
    result: None,
    echoes_key: false,
    retry: Some(HeaderName::from_static("stripe-should-retry")),
    body: BodyForm::Nested {
        fault: "invalid_request_error",
        failure: "api_error",
    },
    refusals: &[
        Row {
            code: "payload_mismatch",
            status: StatusCode::BAD_REQUEST,
            kind: "idempotency_error",
            name: None,
            is_accepted: false,
        },
        Row {
            code: "in_progress",
            status: StatusCode::CONFLICT,
            kind: "invalid_request_error",
            name: Some("idempotency_key_in_use"),
            is_accepted: false,
        },
    ],
};

pub(super) static ACP: Table = Table {
    key: HeaderName::from_static("idempotency-key"),
    syntax: KeySyntax::Opaque,
    requires_key: true,
    client: None,
    first_sent: None,
    methods: &[Method::POST],
    refuses_unguarded: false,
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
    refusals: &[
        Row {
            code: "idempotency_key_missing",
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request",
            name: Some("idempotency_key_required"),
            is_accepted: false,
        },
        Row {
            code: "payload_mismatch",
            status: StatusCode::UNPROCESSABLE_ENTITY,
            kind: "invalid_request",
            name: Some("idempotency_conflict"),
            is_accepted: false,
        },
        Row {
            code: "in_progress",
            status: StatusCode::CONFLICT,
            kind: "invalid_request",
            name: Some("idempotency_in_flight"),
            is_accepted: false,
        },
    ],
};

pub(super) static REPEATABILITY: Table = Table {
    key: HeaderName::from_static("repeatability-request-id"),
    syntax: KeySyntax::Opaque,
    requires_key: false,
    client: Some(HeaderName::from_static("repeatability-client-id")),
    first_sent: Some(HeaderName::from_static("repeatability-first-sent")),
    methods: &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE],
    refuses_unguarded: true,
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
    refusals: &[
        Row {
            code: "payload_mismatch",
            status: StatusCode::BAD_REQUEST,
            kind: "",
            name: None,
            is_accepted: false,
        },
        accepted("in_progress", StatusCode::CONFLICT),
        accepted("outcome_unknown", StatusCode::CONFLICT),
        accepted("result_unavailable", StatusCode::CONFLICT),
        accepted("lease_lost", StatusCode::INTERNAL_SERVER_ERROR),
    ],
};

/// A refusal after the first request with this id was accepted.
const fn accepted(code: &'static str, status: StatusCode) -> Row {
    Row {
        code,
        status,
        kind: "",
        name: None,
        is_accepted: true,
    }
}
