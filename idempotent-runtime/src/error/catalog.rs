//! The facts that depend only on the kind of an error: one row per kind. All other code looks them up here.

use super::advice::ClientAction;
use super::call::Error;
use super::lang::Lang;

#[cfg(test)]
mod docs;
#[cfg(test)]
mod tests;

impl Error {
    /// A stable name for programs, metrics and clients, such as `in_progress`.
    pub fn code(&self) -> &'static str {
        self.facts().code
    }

    /// The HTTP status of a response with this error, for example 409 for [`Error::InProgress`].
    ///
    /// The integrations of web frameworks use it. Use it where this crate has no integration.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, Lang};
    ///
    /// fn response(error: &Error) -> (u16, &'static str) {
    ///     (error.http_status(), error.text(Lang::En))
    /// }
    /// ```
    pub fn http_status(&self) -> u16 {
        self.facts().http
    }

    /// What the client should do about the error.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{ClientAction, Error};
    ///
    /// fn may_be_repeated(error: &Error) -> bool {
    ///     error.client_action() == ClientAction::Wait
    /// }
    /// ```
    pub fn client_action(&self) -> ClientAction {
        self.facts().action
    }

    /// Whether a front end should show no message, because an earlier request of the same user replaces this request, for
    /// example after a double click. Not if the call lacks a permit, or a call with other keys of `also` shares a key with it.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, Lang};
    ///
    /// fn toast(error: &Error) -> Option<&'static str> {
    ///     (!error.is_silent()).then(|| error.text(Lang::En))
    /// }
    /// ```
    pub fn is_silent(&self) -> bool {
        self.facts().silent
    }

    /// The text for the user who made the call, without technical words.
    ///
    /// It names neither the key nor the endpoint. Use `Display` for the log.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, Lang};
    ///
    /// fn toast(error: &Error, accept_language: &str) -> &'static str {
    ///     error.text(Lang::from_accept_language(accept_language))
    /// }
    /// ```
    pub fn text(&self, lang: Lang) -> &'static str {
        let facts = self.facts();
        let own = lang.of_the_program(facts.code);
        own.unwrap_or_else(|| lang.built_in(facts.en, facts.zh_hans))
    }

    /// The row of this kind of error.
    pub(crate) fn facts(&self) -> &'static Facts {
        match self {
            Self::InProgress(running) if !running.is_equal() => &KEY_IN_USE,
            Self::InProgress(_) => &IN_PROGRESS,
            Self::AlreadyDone(_) => &ALREADY_DONE,
            Self::Taken(_) => &TAKEN,
            Self::OutcomeUnknown(_) => &OUTCOME_UNKNOWN,
            Self::PayloadMismatch(_) => &PAYLOAD_MISMATCH,
            Self::ResultUnavailable(_) => &RESULT_UNAVAILABLE,
            Self::TokenUsed(_) => &TOKEN_USED,
            Self::TokenUnknown(_) => &TOKEN_UNKNOWN,
            Self::TokenMalformed(_) => &TOKEN_MALFORMED,
            Self::LimitReached(_) => &LIMIT_REACHED,
            Self::Unavailable(_) => &UNAVAILABLE,
            Self::Misconfigured(_) => &MISCONFIGURED,
            Self::ForeignRecord(_) => &FOREIGN_RECORD,
            Self::LeaseLost(_) => &LEASE_LOST,
            Self::InvalidKey(_) => &INVALID_KEY,
            Self::InvalidPolicy(_) => &INVALID_POLICY,
            Self::NotInstalled(_) => &NOT_INSTALLED,
        }
    }
}

/// One row of the catalog.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The name for programs.
    pub(crate) code: &'static str,
    /// The group that decides the kind of the event.
    pub(crate) group: Group,
    pub(crate) action: ClientAction,
    /// Whether a front end shows no message.
    pub(crate) silent: bool,
    /// The HTTP status.
    pub(crate) http: u16,
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP reads it"))]
    pub(crate) grpc: Grpc,
    /// What is wrong, for the programmer of a client.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP reads it"))]
    title: &'static str,
    /// The title in Simplified Chinese.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP reads it"))]
    zh_title: &'static str,
    /// The text for the user, in English.
    en: &'static str,
    /// The text for the user, in Simplified Chinese.
    zh_hans: &'static str,
}

#[cfg(feature = "http")]
impl Facts {
    /// What is wrong, for the programmer of a client. In English, if the language is one of the program.
    pub(crate) fn title(&self, lang: Lang) -> &'static str {
        lang.built_in(self.title, self.zh_title)
    }
}

/// Errors that have the same kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// An equal call is running.
    Running,
    /// An equal call ended with a success.
    Done,
    /// An equal call was made, and it is not known whether it succeeded.
    Taken,
    /// The key belongs to a call with another payload.
    Mismatch,
    /// The result of an equal call is not available.
    NoResult,
    /// A one-time token or an order number is not valid.
    Token,
    /// A counter's limit is reached.
    Limit,
    /// The store cannot serve the call.
    Store,
    /// The lease was lost while the body ran.
    LeaseLost,
    /// The program asks for something that is not possible.
    Invalid,
}

/// The gRPC codes of errors, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grpc {
    Unknown = 2,
    InvalidArgument = 3,
    AlreadyExists = 6,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    Internal = 13,
    Unavailable = 14,
}

const IN_PROGRESS: Facts = Facts {
    code: "in_progress",
    group: Group::Running,
    action: ClientAction::Wait,
    silent: true,
    http: 409,
    grpc: Grpc::Aborted,
    title: "An equal request is being processed",
    zh_title: "相同的请求正在处理",
    en: "Your request is being processed. Please do not send it again.",
    zh_hans: "系统正在处理中，请勿重复操作",
};

/// Another request has a key of this one, or its permit, so nobody does the work of this request.
const KEY_IN_USE: Facts = Facts {
    silent: false,
    title: "Another request is being processed",
    zh_title: "其他请求正在处理",
    en: "Another request is being processed. Please try again in a moment.",
    zh_hans: "系统正在处理其他请求，请稍后重试",
    ..IN_PROGRESS
};

const ALREADY_DONE: Facts = Facts {
    code: "already_done",
    group: Group::Done,
    action: ClientAction::Ignore,
    silent: true,
    http: 409,
    grpc: Grpc::AlreadyExists,
    title: "An equal request has succeeded",
    zh_title: "相同的请求已经成功",
    en: "Your request was already received. There is no need to send it again.",
    zh_hans: "请勿重复提交",
};

const TAKEN: Facts = Facts {
    code: "taken",
    group: Group::Taken,
    // Not `Ignore`: the equal call may have failed.
    action: ClientAction::Refresh,
    title: "An equal request was made before",
    zh_title: "相同的请求已经提交过",
    en: "Your request was already received. Please check whether it has worked.",
    zh_hans: "请勿重复提交，请刷新后确认结果",
    ..ALREADY_DONE
};

const OUTCOME_UNKNOWN: Facts = Facts {
    code: "outcome_unknown",
    group: Group::Taken,
    action: ClientAction::Refresh,
    // Not silent: nobody but the user may be able to find out.
    silent: false,
    title: "The outcome of an equal request is not known",
    zh_title: "相同请求的结果未知",
    en: "It is not known whether your request has gone through. Please check, or contact support, before you send it again or make a new one.",
    zh_hans: "请求是否成功尚不确定，重新提交或发起新请求之前，请先确认处理结果或联系客服",
    ..ALREADY_DONE
};

const PAYLOAD_MISMATCH: Facts = Facts {
    code: "payload_mismatch",
    group: Group::Mismatch,
    action: ClientAction::Fix,
    silent: false,
    http: 422,
    // Not `InvalidArgument`: gRPC reserves it for arguments that are wrong in every state of the server.
    grpc: Grpc::FailedPrecondition,
    title: "The key belongs to another request",
    zh_title: "该幂等键已用于另一个请求",
    en: "Your request was changed after it was first sent. Please start again with a new one.",
    zh_hans: "内容与首次提交的不一致，请重新发起",
};

const RESULT_UNAVAILABLE: Facts = Facts {
    code: "result_unavailable",
    group: Group::NoResult,
    action: ClientAction::Refresh,
    silent: false,
    http: 409,
    grpc: Grpc::AlreadyExists,
    title: "The result of an equal request is not available",
    zh_title: "相同请求的结果不可用",
    en: "Your request has ended, but its result cannot be shown here. Please reload to see it.",
    zh_hans: "请求已结束，请刷新后查看结果",
};

const TOKEN_USED: Facts = Facts {
    code: "token_used",
    group: Group::Token,
    action: ClientAction::NewToken,
    silent: false,
    http: 409,
    grpc: Grpc::AlreadyExists,
    title: "The one-time token was used before",
    zh_title: "一次性令牌已被使用",
    en: "This page was already submitted. Please reload it before you submit it again.",
    zh_hans: "页面已提交，请勿重复提交",
};

const TOKEN_UNKNOWN: Facts = Facts {
    code: "token_unknown",
    group: Group::Token,
    action: ClientAction::NewToken,
    silent: false,
    http: 410,
    grpc: Grpc::FailedPrecondition,
    title: "There is no such one-time token",
    zh_title: "没有这个一次性令牌",
    en: "This page has expired. Please reload it and try again.",
    zh_hans: "页面已过期，请刷新后重试",
};

const TOKEN_MALFORMED: Facts = Facts {
    code: "token_malformed",
    group: Group::Token,
    action: ClientAction::Fix,
    silent: false,
    http: 400,
    grpc: Grpc::InvalidArgument,
    title: "The one-time token cannot be read",
    zh_title: "一次性令牌无法读取",
    en: CONTACT_SUPPORT_EN,
    zh_hans: CONTACT_SUPPORT_ZH_HANS,
};

const LIMIT_REACHED: Facts = Facts {
    code: "limit_reached",
    group: Group::Limit,
    action: ClientAction::Wait,
    silent: false,
    http: 429,
    grpc: Grpc::ResourceExhausted,
    title: "There were too many attempts",
    zh_title: "尝试次数过多",
    en: "There were too many attempts. Please try again later.",
    zh_hans: "操作过于频繁，请稍后再试",
};

const UNAVAILABLE: Facts = Facts {
    code: "store_unavailable",
    group: Group::Store,
    action: ClientAction::Wait,
    silent: false,
    http: 503,
    grpc: Grpc::Unavailable,
    title: "The request cannot be processed now",
    zh_title: "请求暂时无法处理",
    en: "The service is busy. Please try again in a moment.",
    zh_hans: "系统繁忙，请稍后再试",
};

const MISCONFIGURED: Facts = Facts {
    code: "store_misconfigured",
    group: Group::Store,
    action: ClientAction::Fix,
    silent: false,
    http: 500,
    grpc: Grpc::Internal,
    title: "The server cannot process the request",
    zh_title: "服务器无法处理该请求",
    en: CONTACT_SUPPORT_EN,
    zh_hans: CONTACT_SUPPORT_ZH_HANS,
};

const FOREIGN_RECORD: Facts = Facts {
    code: "foreign_record",
    ..MISCONFIGURED
};

const LEASE_LOST: Facts = Facts {
    code: "lease_lost",
    group: Group::LeaseLost,
    action: ClientAction::Refresh,
    silent: false,
    // A 503 would make proxies and clients repeat a request whose work may already be done.
    http: 500,
    grpc: Grpc::Unknown,
    title: "The request was interrupted, and its outcome is unknown",
    zh_title: "请求被中断，结果未知",
    en: "Your request was interrupted, and may or may not have gone through. \
         Please reload and check before you try again.",
    zh_hans: "处理被中断，结果尚不确定，请刷新确认后再操作",
};

const INVALID_KEY: Facts = Facts {
    code: "invalid_key",
    group: Group::Invalid,
    ..MISCONFIGURED
};

const INVALID_POLICY: Facts = Facts {
    code: "invalid_policy",
    ..INVALID_KEY
};

const NOT_INSTALLED: Facts = Facts {
    code: "not_installed",
    ..INVALID_KEY
};

const CONTACT_SUPPORT_EN: &str = "Your request cannot be processed. Please contact support.";
const CONTACT_SUPPORT_ZH_HANS: &str = "请求无法处理，请联系客服";
