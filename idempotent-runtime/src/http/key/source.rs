//! Where a request has its key.

use std::borrow::Cow;

use ::http::{HeaderMap, HeaderName, header};

use super::fault::{Carrier, HeaderFault, Id, IdFault};
use super::text::{self, KeySyntax, Mistake};
use super::{KeyFault, read_key};
use crate::error::lang::Lang;
use crate::http::content_type::is_json;
use crate::http::payload::json::{self, Unread, Value};
use crate::http::payload::select;
use crate::http::problem::Problem;

/// Where a request has its key: a header, by default `Idempotency-Key`, or a member of its JSON body.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use http::HeaderName;
/// use idempotence::http::KeySource;
///
/// let paypal = KeySource::header(HeaderName::from_static("paypal-request-id"));
/// let in_the_body = KeySource::json_field("request_id");
/// # let _ = (paypal, in_the_body);
/// ```
#[derive(Debug, Clone)]
pub struct KeySource(Source);

#[derive(Debug, Clone)]
enum Source {
    Header(HeaderName),
    Field { dotted: String, path: select::Path },
}

impl Default for KeySource {
    fn default() -> Self {
        Self::header(HeaderName::from_static("idempotency-key"))
    }
}

impl KeySource {
    /// The key is in the header with this name. Two lines of this header in one request are refused.
    pub fn header(name: HeaderName) -> Self {
        Self(Source::Header(name))
    }

    /// The key is a member of the JSON body: `request_id`, or `meta.request_id` for a member of a member. Its value must be a
    /// string.
    ///
    /// The request has no key if the member is missing or `null`, if the body is not JSON, or if the content type is not
    /// JSON.
    ///
    /// The key is part of the body. So a client that sends another key always sends another body, too.
    pub fn json_field(path: impl Into<String>) -> Self {
        let dotted = path.into();
        let path = select::path(&dotted);
        Self(Source::Field { dotted, path })
    }

    /// Whether the key can be read only after the body.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(self.0, Source::Field { .. })
    }

    /// The header with the key.
    pub(crate) fn header_name(&self) -> Option<&HeaderName> {
        match &self.0 {
            Source::Header(name) => Some(name),
            Source::Field { .. } => None,
        }
    }

    /// Whether a request with these headers may have a key.
    pub(crate) fn may_be_in(&self, headers: &HeaderMap) -> bool {
        match &self.0 {
            Source::Header(name) => headers.contains_key(name),
            Source::Field { .. } => is_json(headers.get(header::CONTENT_TYPE)),
        }
    }

    /// Reads the key. `None` if the request has no key. `body` is not used for a header.
    pub(crate) fn read<'a>(
        &self,
        headers: &'a HeaderMap,
        body: &[u8],
        syntax: KeySyntax,
    ) -> Result<Option<Cow<'a, str>>, KeyFault> {
        match &self.0 {
            Source::Header(name) => read_key(headers, name, syntax),
            Source::Field { path, .. } if is_json(headers.get(header::CONTENT_TYPE)) => {
                let key = read_member(body, path, syntax).map_err(KeyFault::Malformed)?;
                Ok(key.map(Cow::Owned))
            }
            Source::Field { .. } => Ok(None),
        }
    }

    /// The refusal of a request whose key has this fault.
    pub(crate) fn problem(&self, fault: KeyFault, syntax: KeySyntax, lang: Lang) -> Problem {
        self.refusal(fault.fault(), fault.mistake(), syntax, lang)
    }

    /// The refusal of a request that has no key. It says if the request cannot have a key, because it is not JSON.
    pub(crate) fn missing(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        syntax: KeySyntax,
        lang: Lang,
    ) -> Problem {
        let mistake = match self.0 {
            Source::Header(_) => None,
            Source::Field { .. } if !is_json(headers.get(header::CONTENT_TYPE)) => {
                Some(Mistake::OtherType)
            }
            Source::Field { .. } => json::parse(body).err().map(|_| Mistake::NotJson),
        };
        self.refusal(HeaderFault::Missing, mistake, syntax, lang)
    }

    fn refusal(
        &self,
        fault: HeaderFault,
        mistake: Option<Mistake>,
        syntax: KeySyntax,
        lang: Lang,
    ) -> Problem {
        let name;
        let carrier = match &self.0 {
            Source::Header(header) => {
                name = usual_case(header);
                Carrier::Header(&name)
            }
            Source::Field { dotted, .. } => Carrier::Field(dotted),
        };
        let fault = IdFault {
            id: Id::IdempotencyKey(syntax),
            carrier,
            fault,
            mistake,
        };
        fault.problem(lang)
    }
}

fn read_member(body: &[u8], path: &[String], syntax: KeySyntax) -> Result<Option<String>, Mistake> {
    let body = match json::parse(body) {
        Ok(body) => body,
        Err(Unread::NotJson) => return Ok(None),
        Err(Unread::DuplicateMember) => return Err(Mistake::DuplicateMember),
        Err(Unread::TooDeep) => return Err(Mistake::TooDeep),
    };
    match select::member(&body, path) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let key = text::read_text(text, syntax)?;
            Ok(Some(key.into_owned()))
        }
        Some(_) => Err(Mistake::NotString),
    }
}

/// The name of a header as people write it: `Idempotency-Key`.
pub(crate) fn usual_case(header: &HeaderName) -> String {
    let words = header.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use ::http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn owned(key: Result<Option<Cow<'_, str>>, KeyFault>) -> Result<Option<String>, KeyFault> {
        key.map(|key| key.map(Cow::into_owned))
    }

    #[test]
    fn the_key_may_be_in_a_header_with_another_name() {
        let source = KeySource::header(HeaderName::from_static("paypal-request-id"));
        let read = |lines: &[_]| owned(source.read(&headers(lines), b"", KeySyntax::Lenient));
        assert_eq!(
            read(&[("paypal-request-id", "a")]),
            Ok(Some("a".to_owned()))
        );
        assert_eq!(read(&[("idempotency-key", "a")]), Ok(None));
        let twice = read(&[("paypal-request-id", "a"), ("paypal-request-id", "a")]);
        assert_eq!(twice, Err(KeyFault::Repeated));
        let quoted = read(&[("paypal-request-id", "\"a")]);
        assert_eq!(quoted, Err(KeyFault::Malformed(Mistake::Unclosed)));
        assert!(!source.is_in_body());
    }

    #[test]
    fn the_key_may_be_a_member_of_the_body() {
        let uuid = "8E03978E-40D5-43E8-BC93-6894A57F9324";
        let key = |text: &str| Ok(Some(text.to_owned()));
        let source = KeySource::json_field("meta.request_id");
        let read = |content_type, body: &str, syntax| {
            let headers = headers(&[("content-type", content_type)]);
            owned(source.read(&headers, body.as_bytes(), syntax))
        };
        let json = |value: &str, syntax| {
            read(
                "application/json",
                &format!(r#"{{"meta":{{"request_id":{value}}}}}"#),
                syntax,
            )
        };
        let (lenient, strict) = (KeySyntax::Lenient, KeySyntax::Strict);
        assert_eq!(json("\"a, b\"", lenient), key("a, b"));
        assert_eq!(json("\"a, b\"", strict), key("a, b"));
        assert_eq!(json("\"\\u0061\"", lenient), key("a"));
        assert_eq!(
            json(&format!("\"{uuid}\""), KeySyntax::Uuid),
            key(&uuid.to_lowercase())
        );
        assert_eq!(json("null", lenient), Ok(None));
        for body in [
            "{}",
            r#"{"request_id":"a"}"#,
            r#"{"meta":"a"}"#,
            "[]",
            "",
            "{",
        ] {
            assert_eq!(read("application/json", body, lenient), Ok(None), "{body}");
        }
        assert_eq!(
            read("text/plain", r#"{"meta":{"request_id":"a"}}"#, lenient),
            Ok(None)
        );
        let long = format!("\"{}\"", "a".repeat(256));
        for (value, mistake) in [
            ("1", Mistake::NotString),
            ("[\"a\"]", Mistake::NotString),
            ("\"\"", Mistake::Empty),
            ("\" \"", Mistake::Blank),
            ("\"é\"", Mistake::Unprintable),
            ("\"\\n\"", Mistake::Unprintable),
            (&long, Mistake::TooLong),
            ("\"a\",\"request_id\":\"b\"", Mistake::DuplicateMember),
        ] {
            assert_eq!(
                json(value, lenient),
                Err(KeyFault::Malformed(mistake)),
                "{value}"
            );
        }
        assert_eq!(
            json("\"a\"", KeySyntax::Uuid),
            Err(KeyFault::Malformed(Mistake::NotUuid))
        );
        assert!(source.is_in_body());
    }

    #[test]
    fn the_refusal_names_the_header_or_the_member() {
        let syntax = KeySyntax::Lenient;
        let missing = KeySource::default().missing(&headers(&[]), b"", syntax, Lang::En);
        assert_eq!(missing.code, "idempotency_key_missing");
        assert_eq!(missing.title, "Idempotency-Key is missing");
        let twice = KeySource::header(HeaderName::from_static("cko-idempotency-key"));
        let twice = twice.problem(KeyFault::Repeated, syntax, Lang::En);
        assert_eq!(twice.code, "idempotency_key_repeated");
        assert_eq!(
            twice.detail,
            "Send the header Cko-Idempotency-Key once, with 1 to 255 printable ASCII characters."
        );
        let field = KeySource::json_field("meta.request_id");
        let fault = KeyFault::Malformed(Mistake::NotString);
        let malformed = field.problem(fault, syntax, Lang::En);
        assert_eq!(malformed.code, "idempotency_key_malformed");
        assert_eq!(
            malformed.title,
            "meta.request_id cannot be read: it is not a string"
        );
        assert_eq!(
            malformed.detail,
            "The member meta.request_id of the JSON body is not a string. Send the member meta.request_id of the JSON body \
             once, with 1 to 255 printable ASCII characters."
        );
        let malformed = field.problem(fault, syntax, Lang::ZhHans);
        assert_eq!(
            malformed.detail,
            "JSON 请求体的成员 meta.request_id 无法读取:其值不是字符串。请发送且仅发送一次JSON 请求体的成员 meta.request_id,\
             其值为 1 至 255 个可打印的 ASCII 字符"
        );
    }
}
