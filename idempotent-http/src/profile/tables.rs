//! The four tables. The docs of `Profile` name their public texts.

use std::time::Duration;

use ::http::{HeaderName, Method, StatusCode};

use super::table::{BodyForm, Row, Table};
use crate::key::text::KeySyntax;
use crate::payload::Payload;

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
    refusals: &[
        Row {
            kind: "idempotency_error",
            ..stripe(
                "payload_mismatch",
                StatusCode::BAD_REQUEST,
                [
                    "An idempotency key belongs to one request: this key was used on another route, or with other parameters. Repeat the first request as it was, or send this request with a new key.",
                    "幂等键只属于一个请求：该键已用于其他路由或其他参数。请原样重发首个请求，或使用新的键",
                ],
            )
        },
        Row {
            name: "idempotency_key_in_use",
            ..stripe(
                "in_progress",
                StatusCode::CONFLICT,
                [
                    "Another request with this idempotency key is being processed. Send the same request again later, with the same key.",
                    "使用该幂等键的另一个请求正在处理中。请稍后使用同一个键重发同一请求",
                ],
            )
        },
        stripe(
            "outcome_unknown",
            StatusCode::CONFLICT,
            [
                "An earlier request with this idempotency key has ended, and its work may be done or not. Look the result up before you send another request, and do not use a new key.",
                "使用该幂等键的先前请求已结束，但结果未知。请先查询结果，再发送新请求，且不要更换键",
            ],
        ),
        stripe(
            "result_unavailable",
            StatusCode::CONFLICT,
            [
                "An earlier request with this idempotency key was processed, and its response is not stored. Look the result up; if the response has a Location, it is there.",
                "使用该幂等键的先前请求已处理，但其响应未保存。请查询结果；如有 Location，则结果在该处",
            ],
        ),
        stripe(
            "lease_lost",
            StatusCode::INTERNAL_SERVER_ERROR,
            [
                "The request was stopped in the middle, and its work may be done or not. Look the result up before you send another request, and do not use a new key.",
                "请求在处理中途被停止，结果未知。请先查询结果，再发送新请求，且不要更换键",
            ],
        ),
        stripe(
            "store_unavailable",
            StatusCode::SERVICE_UNAVAILABLE,
            [
                "Idempotency keys cannot be checked at the moment, so the request was not processed. Send the same request again later, with the same key.",
                "暂时无法检查幂等键，请求未被处理。请稍后使用同一个键重发同一请求",
            ],
        ),
    ],
};

/// A refusal with a text for the programmer of the client.
const fn stripe(code: &'static str, status: StatusCode, message: [&'static str; 2]) -> Row {
    let is_failure = status.as_u16() >= 500;
    Row {
        code,
        status,
        kind: if is_failure {
            "api_error"
        } else {
            "invalid_request_error"
        },
        name: code,
        message: Some(message),
        is_accepted: false,
    }
}

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
    refusals: &[
        Row {
            code: "idempotency_key_missing",
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request",
            name: "idempotency_key_required",
            message: None,
            is_accepted: false,
        },
        Row {
            code: "payload_mismatch",
            status: StatusCode::UNPROCESSABLE_ENTITY,
            kind: "invalid_request",
            name: "idempotency_conflict",
            message: None,
            is_accepted: false,
        },
        Row {
            code: "in_progress",
            status: StatusCode::CONFLICT,
            kind: "invalid_request",
            name: "idempotency_in_flight",
            message: None,
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
    refusals: &[
        Row {
            code: "payload_mismatch",
            status: StatusCode::BAD_REQUEST,
            kind: "",
            name: "payload_mismatch",
            message: None,
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
        name: code,
        message: None,
        is_accepted: true,
    }
}
