//! The rejection of a request whose header with an id is missing or malformed.

use std::error::Error as StdError;
use std::fmt;

use ::axum::http::{HeaderMap, HeaderValue, StatusCode};
use ::axum::response::{IntoResponse, Response};

use crate::error::advice::ClientAction;
use crate::error::lang::Lang;
use crate::http::lang;
use crate::http::problem::Problem;

/// Why a request has no [`IdempotencyKey`](super::IdempotencyKey), or no [`RequestId`](crate::RequestId).
///
/// The response has the status 400 and a body `application/problem+json`, as for a refused call, in the language of the
/// request's `Accept-Language`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderRejection {
    id: Id,
    fault: HeaderFault,
    /// What is wrong with the value of a malformed header.
    mistake: Option<Mistake>,
    lang: Lang,
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The header is missing.
    Missing,
    /// The header was sent more than once.
    Repeated,
    /// The value is not 1 to 255 printable ASCII characters, or its quotes are wrong.
    Malformed,
}

/// What is wrong with the value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    Empty,
    TooLong,
    Unprintable,
    SpaceAtAnEnd,
    Unclosed,
    AfterQuote,
    UnquotedQuote,
    UnquotedComma,
    Escape,
}

impl Mistake {
    /// The mistake in a value that is not 1 to 255 printable ASCII characters.
    pub(super) fn in_characters(value: &[u8]) -> Self {
        match value {
            [] => Self::Empty,
            _ if !value.iter().all(|byte| matches!(byte, b' '..=b'~')) => Self::Unprintable,
            [b' ', ..] | [.., b' '] if value.len() <= 255 => Self::SpaceAtAnEnd,
            _ => Self::TooLong,
        }
    }

    /// The mistake, as the predicate of a sentence about the value.
    const fn text(self, lang: Lang) -> &'static str {
        let (en, zh_hans) = match self {
            Self::Empty => ("is empty", "其值为空"),
            Self::TooLong => ("has more than 255 characters", "其值超过 255 个字符"),
            Self::Unprintable => (
                "has a character that is not printable ASCII",
                "其值含有不可打印或非 ASCII 的字符",
            ),
            Self::SpaceAtAnEnd => ("begins or ends with a space", "其值以空格开头或结尾"),
            Self::Unclosed => (
                "has an opening quote without a closing quote",
                "其值有起始引号,但没有结束引号",
            ),
            Self::AfterQuote => (
                "has more text after the closing quote",
                "其值在结束引号之后还有其他内容",
            ),
            Self::UnquotedQuote => (
                "has a quote, but does not begin with one",
                "其值含有引号,但不以引号开头",
            ),
            Self::UnquotedComma => ("has a comma outside of quotes", "其值含有逗号,但没有加引号"),
            Self::Escape => (
                "has a backslash before a character other than a quote or a backslash",
                "其值中的反斜杠之后不是引号或反斜杠",
            ),
        };
        match lang {
            Lang::En | Lang::Custom(_) => en,
            Lang::ZhHans => zh_hans,
        }
    }
}

/// The id in a header, and the name of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    IdempotencyKey,
    RequestId(&'static str),
}

impl HeaderRejection {
    /// The rejection of a request with these headers.
    pub(super) fn new(id: Id, fault: HeaderFault, headers: &HeaderMap) -> Self {
        Self {
            id,
            fault,
            mistake: None,
            lang: lang::from_headers(headers),
        }
    }

    /// The rejection of a request whose header has a malformed value.
    pub(super) fn malformed(id: Id, mistake: Mistake, headers: &HeaderMap) -> Self {
        Self {
            mistake: Some(mistake),
            ..Self::new(id, HeaderFault::Malformed, headers)
        }
    }

    /// What is wrong with the header.
    pub const fn fault(self) -> HeaderFault {
        self.fault
    }

    /// The name of the header, such as `Idempotency-Key`.
    pub const fn header(self) -> &'static str {
        match self.id {
            Id::IdempotencyKey => "Idempotency-Key",
            Id::RequestId(header) => header,
        }
    }

    /// A stable name for programs and clients: `idempotency_key_missing`, `_repeated` or `_malformed`, or `request_id_` with
    /// one of the same three endings.
    pub const fn code(self) -> &'static str {
        match (self.id, self.fault) {
            (Id::IdempotencyKey, HeaderFault::Missing) => "idempotency_key_missing",
            (Id::IdempotencyKey, HeaderFault::Repeated) => "idempotency_key_repeated",
            (Id::IdempotencyKey, HeaderFault::Malformed) => "idempotency_key_malformed",
            (Id::RequestId(_), HeaderFault::Missing) => "request_id_missing",
            (Id::RequestId(_), HeaderFault::Repeated) => "request_id_repeated",
            (Id::RequestId(_), HeaderFault::Malformed) => "request_id_malformed",
        }
    }

    /// What is wrong with a malformed header, and what the client must send.
    pub fn text(self, lang: Lang) -> String {
        if let Lang::Custom(translation) = lang
            && let Some(text) = translation.text(self.code())
        {
            return text.to_owned();
        }
        let (header, request) = (self.header(), self.request(lang));
        let Some(mistake) = self.mistake.map(|mistake| mistake.text(lang)) else {
            return request;
        };
        match lang {
            Lang::En | Lang::Custom(_) => format!("The header {header} {mistake}. {request}"),
            Lang::ZhHans => format!("请求头 {header} 无法读取:{mistake}。{request}"),
        }
    }

    /// What the client must send.
    fn request(self, lang: Lang) -> String {
        let header = self.header();
        match lang {
            Lang::En | Lang::Custom(_) => {
                format!("Send the header {header} once, with 1 to 255 printable ASCII characters.")
            }
            Lang::ZhHans => {
                format!("请发送且仅发送一次请求头 {header},其值为 1 至 255 个可打印的 ASCII 字符")
            }
        }
    }
}

/// The value of the header. `None` if the header is missing.
pub(super) fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &str,
) -> Result<Option<&'a HeaderValue>, HeaderFault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(HeaderFault::Repeated),
    }
}

impl IntoResponse for HeaderRejection {
    fn into_response(self) -> Response {
        let problem = Problem {
            status: StatusCode::BAD_REQUEST,
            code: self.code(),
            title: self.to_string().into(),
            detail: self.text(self.lang).into(),
            lang: self.lang,
            client_action: ClientAction::Fix,
            silent: false,
            retry_after: None,
        };
        problem.into_response()
    }
}

impl fmt::Display for HeaderRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            HeaderFault::Missing => "is missing",
            HeaderFault::Repeated => "was sent more than once",
            HeaderFault::Malformed => "cannot be read",
        };
        write!(f, "{} {what}", self.header())?;
        match self.mistake {
            Some(mistake) => write!(f, ": it {}", mistake.text(Lang::En)),
            None => Ok(()),
        }
    }
}

impl StdError for HeaderRejection {}

#[cfg(test)]
mod tests {
    use ::axum::body::to_bytes;
    use ::axum::http::header;
    use serde_json::{Value, json};

    use super::*;

    async fn problem(
        id: Id,
        fault: HeaderFault,
        accept_language: &'static str,
    ) -> (Response, Value) {
        let mut headers = HeaderMap::new();
        let accepted = HeaderValue::from_static(accept_language);
        headers.insert(header::ACCEPT_LANGUAGE, accepted);
        let response = HeaderRejection::new(id, fault, &headers).into_response();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 10_000).await.unwrap();
        let problem = serde_json::from_slice(&body).unwrap();
        (Response::from_parts(head, body.into()), problem)
    }

    #[tokio::test]
    async fn a_request_without_a_key_gets_what_to_send() {
        let (response, problem) = problem(Id::IdempotencyKey, HeaderFault::Missing, "en").await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(headers[header::CONTENT_LANGUAGE], "en");
        let expected = json!({
            "type": "urn:idempotence:idempotency_key_missing",
            "title": "Idempotency-Key is missing",
            "status": 400,
            "detail": "Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters.",
            "code": "idempotency_key_missing",
            "client_action": "fix",
            "silent": false,
        });
        assert_eq!(problem, expected);
    }

    #[tokio::test]
    async fn a_client_gets_what_to_send_in_its_own_language() {
        for (id, header) in [
            (Id::IdempotencyKey, "Idempotency-Key"),
            (Id::RequestId("X-Request-Id"), "X-Request-Id"),
        ] {
            let faults = [
                HeaderFault::Missing,
                HeaderFault::Repeated,
                HeaderFault::Malformed,
            ];
            for fault in faults {
                let (response, problem) = problem(id, fault, "zh-CN;Q=0.9").await;
                assert_eq!(response.headers()[header::CONTENT_LANGUAGE], "zh-Hans");
                let detail = problem["detail"].as_str().unwrap();
                assert!(
                    detail.contains(header) && detail.contains("请发送"),
                    "{detail}"
                );
            }
        }
    }

    #[test]
    fn a_malformed_header_is_rejected_with_its_mistake() {
        let headers = HeaderMap::new();
        let id = Id::IdempotencyKey;
        let unclosed = HeaderRejection::malformed(id, Mistake::Unclosed, &headers);
        assert_eq!(
            unclosed.text(Lang::En),
            "The header Idempotency-Key has an opening quote without a closing quote. \
             Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters."
        );
        assert_eq!(
            unclosed.text(Lang::ZhHans),
            "请求头 Idempotency-Key 无法读取:其值有起始引号,但没有结束引号。\
             请发送且仅发送一次请求头 Idempotency-Key,其值为 1 至 255 个可打印的 ASCII 字符"
        );
        assert_eq!(
            unclosed.to_string(),
            "Idempotency-Key cannot be read: it has an opening quote without a closing quote"
        );
    }

    /// A rejection for each fault of each header.
    fn every_rejection() -> impl Iterator<Item = HeaderRejection> {
        [Id::IdempotencyKey, Id::RequestId("X-Request-Id")]
            .into_iter()
            .flat_map(|id| {
                [
                    HeaderFault::Missing,
                    HeaderFault::Repeated,
                    HeaderFault::Malformed,
                ]
                .map(|fault| HeaderRejection::new(id, fault, &HeaderMap::new()))
            })
    }

    #[test]
    fn the_page_of_errors_names_every_rejection() {
        let page = include_str!("../../../../docs/errors.md");
        let (_, section) = page.split_once("The extractors of axum refuse").unwrap();
        let (section, _) = section.split_once("\n\n").unwrap();
        for rejection in every_rejection() {
            let (id, fault) = rejection.code().rsplit_once('_').unwrap();
            let status = rejection.into_response().status();
            for fact in [id, &format!("_{fault}`"), status.as_str(), "`fix`"] {
                assert!(section.contains(fact), "{fact} in {section}");
            }
        }
    }

    #[test]
    fn every_rejection_has_its_own_code() {
        let mut codes: Vec<&str> = every_rejection().map(HeaderRejection::code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 6, "{codes:?}");
    }
}
