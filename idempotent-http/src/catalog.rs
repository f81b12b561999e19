//! The refusals before a call: one row for each, with its texts; and how the conventions name refusals. The refusals of calls are
//! in the catalog of errors of the runtime.

use std::borrow::Cow;
use std::time::Duration;

use ::http::StatusCode;
use idempotent_runtime::port::http::{Problem, built_in, text_of_the_program};
use idempotent_runtime::{ClientAction, Lang};

#[cfg(test)]
mod tests;

/// Why a request is refused before a call is made.
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) status: StatusCode,
    /// In English and Chinese, as `detail`.
    title: [&'static str; 2],
    /// The text for the user. `{}` is what the request should have.
    detail: [&'static str; 2],
    action: ClientAction,
}

impl Row {
    /// The body of the response. `given` replaces `{}` in the text.
    pub(crate) fn problem(&self, given: &str, lang: Lang) -> Problem {
        let [en, zh_hans] = self.detail;
        let detail = match text_of_the_program(lang, self.code) {
            Some(text) => Cow::Borrowed(text),
            None => match built_in(lang, en, zh_hans) {
                fixed if given.is_empty() => fixed.into(),
                text => text.replace("{}", given).into(),
            },
        };
        Problem {
            status: self.status,
            code: self.code,
            title: self.title(lang).into(),
            detail,
            lang,
            client_action: self.action,
            silent: false,
            retry_after: (self.action == ClientAction::Wait).then_some(Duration::from_secs(1)),
        }
    }

    pub(crate) fn title(&self, lang: Lang) -> &'static str {
        let [en, zh_hans] = self.title;
        built_in(lang, en, zh_hans)
    }
}

macro_rules! catalog {
    ($($row:ident: $code:literal, $status:ident, $action:ident, $title:expr, $detail:expr;)*) => {
        $(pub(crate) static $row: Row = Row {
            code: $code,
            status: StatusCode::$status,
            title: $title,
            detail: $detail,
            action: ClientAction::$action,
        };)*

        #[cfg(test)]
        const ROWS: &[&Row] = &[$(&$row),*];
    };
}

const UNREADABLE: [&str; 2] = ["The request cannot be read", "请求无法读取"];
const AMBIGUOUS: [&str; 2] = [
    "The body of the request is ambiguous or too complex",
    "请求体存在歧义或过于复杂",
];
const NO_CALLER: [&str; 2] = ["The request names no caller", "请求没有标明调用方"];
const SEND_DATE: [&str; 2] = [
    "Send the header {} once, with the time of the first try, for example Sun, 06 Nov 1994 08:49:37 GMT.",
    "请求头 {} 必须且只能出现一次，其值为首次发送时间，例如 Sun, 06 Nov 1994 08:49:37 GMT",
];
/// The error of the call has the text.
const OF_THE_ERROR: [&str; 2] = [""; 2];

catalog! {
    // Nothing ran, so the client may send the same request again.
    REQUEST_BROKEN: "request_unreadable", BAD_REQUEST, Wait, UNREADABLE, [
        "The body of the request did not arrive as a whole. Send the request again.",
        "请求体不完整，请重新发送",
    ];
    // Nothing ran, but the same request cannot be decoded, either.
    REQUEST_MALFORMED: "request_unreadable", BAD_REQUEST, Fix, UNREADABLE, [
        "The body of the request cannot be decoded: its chunks or its encoding are malformed. Correct the request.",
        "请求体无法解码：分块或编码格式有误。请修正请求",
    ];
    REQUEST_TOO_LARGE: "request_too_large", PAYLOAD_TOO_LARGE, Fix, ["The request is too large", "请求体过大"], [
        "The body of this request may have {} bytes at most.",
        "请求体最多 {} 字节",
    ];
    MEMBER_TWICE: "payload_malformed", BAD_REQUEST, Fix, AMBIGUOUS, [
        "An object in the JSON body has two members with one name. Send every member once.",
        "JSON 请求体中有对象含重名成员。请确保每个成员只出现一次",
    ];
    TOO_DEEP: "payload_malformed", BAD_REQUEST, Fix, AMBIGUOUS, [
        "The JSON body is nested deeper than 128 levels. Send a body with fewer levels.",
        "JSON 请求体的嵌套超过 128 层。请减少嵌套层数",
    ];
    OUT_OF_RANGE: "payload_malformed", BAD_REQUEST, Fix, AMBIGUOUS, [
        "The exponent of a number in the JSON body does not fit in 64 bits. Send a smaller exponent.",
        "JSON 请求体中有数字的指数超出 64 位。请使用较小的指数",
    ];
    SCOPE_HEADER_MISSING: "scope_missing", BAD_REQUEST, Fix, NO_CALLER, [
        "Send the request again with the header {}.",
        "请携带请求头 {} 后重新发送",
    ];
    CALLER_MISSING: "scope_missing", BAD_REQUEST, Fix, NO_CALLER, [
        "Log in, then send the request again.",
        "请登录后重新发送",
    ];
    ROUTE_UNKNOWN: "route_unknown", INTERNAL_SERVER_ERROR, Fix, [
        "The server does not know the route of the request",
        "服务器无法确定该请求的路由",
    ], OF_THE_ERROR;
    ROUTE_INVALID: "route_invalid", INTERNAL_SERVER_ERROR, Fix, [
        "The server cannot use the route of the request",
        "服务器无法使用该请求的路由",
    ], OF_THE_ERROR;
    REPEATABILITY_UNSUPPORTED: "repeatability_unsupported", NOT_IMPLEMENTED, Fix, [
        "The operation does not support repeatable requests",
        "该操作不支持可重复请求",
    ], [
        "This operation does not support repeatable requests. Send the request without the headers that make it repeatable.",
        "该操作不支持可重复请求，请去掉相关请求头后重新发送",
    ];
    FIRST_SENT_MISSING: "first_sent_missing", BAD_REQUEST, Fix, [
        "The request does not say when it was first sent",
        "请求没有标明首次发送时间",
    ], SEND_DATE;
    FIRST_SENT_MALFORMED: "first_sent_malformed", BAD_REQUEST, Fix, [
        "The time of the first sending cannot be read",
        "首次发送时间无法读取",
    ], SEND_DATE;
    FIRST_SENT_OUTSIDE_WINDOW: "first_sent_outside_window", PRECONDITION_FAILED, Fix, [
        "The request was not first sent within the time in which repetitions are recognized",
        "首次发送时间超出可识别重复请求的时间范围",
    ], [
        "The request was first sent too long ago, or the clock of the client is wrong. Check what the request has done before you send it as a new request.",
        "请求的首次发送时间过早，或客户端时钟有误。作为新请求重新发送之前，请先确认处理结果",
    ];
}

/// How a convention names a refusal of this crate.
pub(crate) struct ProfileForm {
    /// The code of this crate.
    pub(crate) code: &'static str,
    pub(crate) status: StatusCode,
    /// The group of the error. Not in problems.
    pub(crate) kind: &'static str,
    /// The code of the convention.
    pub(crate) name: &'static str,
    /// The text in English and Chinese for the programmer of the client; `None` for the text for its user.
    pub(crate) message: Option<[&'static str; 2]>,
    /// Whether the first request with this key was accepted.
    pub(crate) is_accepted: bool,
}

macro_rules! forms {
    ($($code:literal: $status:ident, $kind:literal, $name:literal, $message:expr, $is_accepted:literal;)*) => {
        &[$(ProfileForm {
            code: $code,
            status: StatusCode::$status,
            kind: $kind,
            name: $name,
            message: $message,
            is_accepted: $is_accepted,
        }),*]
    };
}

pub(crate) static STRIPE: &[ProfileForm] = forms! {
    "payload_mismatch": BAD_REQUEST, "idempotency_error", "payload_mismatch", Some([
        "An idempotency key belongs to one request: this key was used on another route, or with other parameters. Repeat the first request as it was, or send this request with a new key.",
        "幂等键只属于一个请求：该键已用于其他路由或其他参数。请原样重发首个请求，或使用新的键",
    ]), false;
    "in_progress": CONFLICT, "invalid_request_error", "idempotency_key_in_use", Some([
        "Another request with this idempotency key is being processed. Send the same request again later, with the same key.",
        "使用该幂等键的另一个请求正在处理中。请稍后使用同一个键重发同一请求",
    ]), false;
    "outcome_unknown": CONFLICT, "invalid_request_error", "outcome_unknown", Some([
        "An earlier request with this idempotency key has ended, and its work may be done or not. Look the result up before you send another request, and do not use a new key.",
        "使用该幂等键的先前请求已结束，但结果未知。请先查询结果，再发送新请求，且不要更换键",
    ]), false;
    "result_unavailable": CONFLICT, "invalid_request_error", "result_unavailable", Some([
        "An earlier request with this idempotency key was processed, and its response is not stored. Look the result up; if the response has a Location, it is there.",
        "使用该幂等键的先前请求已处理，但其响应未保存。请查询结果；如有 Location，则结果在该处",
    ]), false;
    "lease_lost": INTERNAL_SERVER_ERROR, "api_error", "lease_lost", Some([
        "The request was stopped in the middle, and its work may be done or not. Look the result up before you send another request, and do not use a new key.",
        "请求在处理中途被停止，结果未知。请先查询结果，再发送新请求，且不要更换键",
    ]), false;
    "store_unavailable": SERVICE_UNAVAILABLE, "api_error", "store_unavailable", Some([
        "Idempotency keys cannot be checked at the moment, so the request was not processed. Send the same request again later, with the same key.",
        "暂时无法检查幂等键，请求未被处理。请稍后使用同一个键重发同一请求",
    ]), false;
};

pub(crate) static ACP: &[ProfileForm] = forms! {
    "idempotency_key_missing": BAD_REQUEST, "invalid_request", "idempotency_key_required", None, false;
    "payload_mismatch": UNPROCESSABLE_ENTITY, "invalid_request", "idempotency_conflict", None, false;
    "in_progress": CONFLICT, "invalid_request", "idempotency_in_flight", None, false;
};

pub(crate) static REPEATABILITY: &[ProfileForm] = forms! {
    "payload_mismatch": BAD_REQUEST, "", "payload_mismatch", None, false;
    "in_progress": CONFLICT, "", "in_progress", None, true;
    "outcome_unknown": CONFLICT, "", "outcome_unknown", None, true;
    "result_unavailable": CONFLICT, "", "result_unavailable", None, true;
    "lease_lost": INTERNAL_SERVER_ERROR, "", "lease_lost", None, true;
};
