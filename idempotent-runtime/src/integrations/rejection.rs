//! The rejection of a request whose header with an id is missing or malformed.

use std::error::Error as StdError;
use std::fmt;

use ::http::{HeaderMap, Response};
use bytes::Bytes;

use super::fault::{HeaderFault, IdFault};
use super::lang;
use crate::Lang;

/// Why a request has no `IdempotencyKey`, or no [`RequestId`](crate::RequestId).
///
/// The response has the status 400 and a body `application/problem+json`, as for a refused call, in the language of the
/// request's `Accept-Language`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderRejection {
    fault: IdFault<'static>,
    lang: Lang,
}

/// The rejection of a request with these headers.
pub fn rejected(fault: IdFault<'static>, headers: &HeaderMap) -> HeaderRejection {
    let lang = lang::from_headers(headers);
    HeaderRejection { fault, lang }
}

impl HeaderRejection {
    /// The response to the request.
    pub(super) fn response<B: From<Bytes>>(self) -> Response<B> {
        let problem = self.fault.problem(self.lang);
        let mut response = problem.response();
        response.extensions_mut().insert(problem);
        response
    }

    /// What is wrong with the header.
    pub const fn fault(self) -> HeaderFault {
        self.fault.fault
    }

    /// The name of the header, such as `Idempotency-Key`.
    pub const fn header(self) -> &'static str {
        self.fault.carrier.name()
    }

    /// A stable name for programs and clients: `idempotency_key_missing`, `_repeated` or `_malformed`, or `request_id_` with
    /// one of the same three endings.
    pub const fn code(self) -> &'static str {
        self.fault.code()
    }

    /// What is wrong with a malformed header, and what the client must send.
    pub fn text(self, lang: Lang) -> String {
        self.fault.text(lang)
    }
}

impl fmt::Display for HeaderRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl StdError for HeaderRejection {}
