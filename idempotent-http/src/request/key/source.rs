//! Where a request has its key.

use std::borrow::Cow;

use ::http::{HeaderName, request};
use idempotent_runtime::Lang;
use idempotent_runtime::port::http::Problem;

use super::KeyFault;
use super::place::Place;
use crate::request::key::text::KeySyntax;
use crate::request::payload::select;

/// Where a request has its key: by default in the header `Idempotency-Key`.
///
/// ```
/// use http::HeaderName;
/// use idempotence::http::KeySource;
///
/// let paypal = KeySource::header(HeaderName::from_static("paypal-request-id"));
/// let aws = KeySource::json_field("clientToken");
/// let google = KeySource::query("requestId").or(KeySource::json_field("requestId"));
/// let html_form = KeySource::form_field("idempotency_key");
/// # let _ = (paypal, aws, google, html_form);
/// ```
#[derive(Debug, Clone)]
pub struct KeySource {
    first: Place,
    others: Vec<Place>,
}

impl Default for KeySource {
    fn default() -> Self {
        Self::header(HeaderName::from_static("idempotency-key"))
    }
}

impl KeySource {
    /// The key is in the header with this name. Two lines of this header in one request are refused.
    pub fn header(name: HeaderName) -> Self {
        Self::of(Place::Header(name))
    }

    /// The key is a parameter of the query: `?requestId=…`. A request with two such parameters is refused.
    ///
    /// The query is part of the payload. So a client that sends another key always sends another payload, too.
    pub fn query(name: impl Into<String>) -> Self {
        Self::of(Place::Query(name.into()))
    }

    /// The key is a field of a form (`application/x-www-form-urlencoded`), such as a hidden field of a page. A request with two such
    /// fields is refused.
    ///
    /// A form with files (`multipart/form-data`) has no key.
    pub fn form_field(name: impl Into<String>) -> Self {
        Self::of(Place::Field(name.into()))
    }

    /// The key is a member of the JSON body: `request_id`, or `meta.request_id` for a member of a member. Its value must be a
    /// string or a whole number. `7` and `"7"` are one key.
    ///
    /// The body is read as JSON whatever its content type is, because some clients send JSON as another type: SDKs of AWS as
    /// `application/x-amz-json-1.1`, `navigator.sendBeacon` as `text/plain`, curl as a form. Only bodies of files (`image/*`, `audio/*`,
    /// `video/*`, `font/*`, `multipart/*`, `application/octet-stream`) are not read: so is each other type with
    /// [`only_json_types`](Self::only_json_types). The request has no key if the member is missing or `null`, or if the body is not JSON.
    ///
    /// The key is part of the body. So a client that sends another key always sends another body, too.
    pub fn json_field(path: impl Into<String>) -> Self {
        let dotted = path.into();
        let path = select::path(&dotted);
        Self::of(Place::Member {
            dotted,
            path,
            only_json_types: false,
        })
    }

    /// Reads a member only in a body whose content type is JSON: `application/json`, `text/json`, or a type that ends with `+json`.
    /// Each other body passes unread, so its size has no limit. Other places do not change.
    #[must_use]
    pub fn only_json_types(mut self) -> Self {
        for place in std::iter::once(&mut self.first).chain(&mut self.others) {
            if let Place::Member {
                only_json_types, ..
            } = place
            {
                *only_json_types = true;
            }
        }
        self
    }

    /// The key is in the first of both places that has one. A refusal of a request without a key names the first place.
    ///
    /// ```
    /// use http::HeaderName;
    /// use idempotence::http::KeySource;
    ///
    /// // Old clients send the second header.
    /// let old = HeaderName::from_static("x-request-key");
    /// let source = KeySource::default().or(KeySource::header(old));
    /// # let _ = source;
    /// ```
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.others.push(other.first);
        self.others.extend(other.others);
        self
    }

    fn of(first: Place) -> Self {
        let others = Vec::new();
        Self { first, others }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Whether the key of this request can be read only after its body.
    pub(crate) fn needs_body(&self, head: &request::Parts) -> bool {
        let found = self.places().find(|place| place.may_be_in(head));
        found.is_some_and(Place::is_in_body)
    }

    /// The headers that may have the key, in order.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.places().filter_map(|place| match place {
            Place::Header(name) => Some(name),
            _ => None,
        })
    }

    /// The parameters of the query that may have the key, in order.
    #[cfg(feature = "utoipa")]
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.places().filter_map(|place| match place {
            Place::Query(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether there is only one place.
    #[cfg(feature = "utoipa")]
    pub(crate) fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether the key may be in the body of requests.
    pub(crate) fn may_be_in_body(&self) -> bool {
        self.places().any(Place::is_in_body)
    }

    /// Whether a request with this head may have a key.
    pub(crate) fn may_be_in(&self, head: &request::Parts) -> bool {
        self.places().any(|place| place.may_be_in(head))
    }

    /// Whether the head of a request has a key.
    pub(crate) fn is_in_head(&self, head: &request::Parts) -> bool {
        let mut places = self.places().filter(|place| !place.is_in_body());
        places.any(|place| place.may_be_in(head))
    }

    /// Reads the key. `None` if the request has no key. `body` may be empty unless the source [needs](Self::needs_body) it.
    pub(crate) fn read<'a>(
        &self,
        head: &'a request::Parts,
        body: &[u8],
        syntax: KeySyntax,
    ) -> Result<Option<Cow<'a, str>>, SourceFault<'_>> {
        for place in self.places() {
            let read = place.read(head, body, syntax);
            if let Some(key) = read.map_err(|fault| SourceFault { place, fault })? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// The refusal of a request that has no key. It says if the request cannot have a key, for example because it is not JSON.
    pub(crate) fn missing(
        &self,
        head: &request::Parts,
        body: &[u8],
        syntax: KeySyntax,
        lang: Lang,
    ) -> Problem {
        self.first.missing(head, body, syntax, lang)
    }

    /// Why a request has no key, in one line for the log.
    pub(crate) fn absence(&self, head: &request::Parts, body: &[u8]) -> String {
        let places = self.places().map(|place| place.absence(head, body));
        places.collect::<Vec<_>>().join(", and ")
    }
}

/// Why a place has no key, although it has a value.
#[derive(Debug)]
pub(crate) struct SourceFault<'a> {
    place: &'a Place,
    fault: KeyFault,
}

impl SourceFault<'_> {
    /// The refusal of the request.
    pub(crate) fn problem(&self, syntax: KeySyntax, lang: Lang) -> Problem {
        self.place.problem(self.fault, syntax, lang)
    }
}

#[cfg(test)]
mod tests {
    use ::http::Request;
    use idempotent_runtime::port::http::Mistake;

    use super::*;

    fn head(uri: &str, lines: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::post(uri);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn read(
        source: &KeySource,
        head: &request::Parts,
        body: &str,
        syntax: KeySyntax,
    ) -> Result<Option<String>, KeyFault> {
        let key = source.read(head, body.as_bytes(), syntax);
        let key = key.map(|key| key.map(Cow::into_owned));
        key.map_err(|fault| fault.fault)
    }

    #[test]
    fn the_key_may_be_in_a_header_with_another_name() {
        let source = KeySource::header(HeaderName::from_static("paypal-request-id"));
        let read = |lines: &[_]| read(&source, &head("/", lines), "", KeySyntax::Lenient);
        assert_eq!(
            read(&[("paypal-request-id", "a")]),
            Ok(Some("a".to_owned()))
        );
        assert_eq!(read(&[("idempotency-key", "a")]), Ok(None));
        let twice = read(&[("paypal-request-id", "a"), ("paypal-request-id", "a")]);
        assert_eq!(twice, Err(KeyFault::Repeated));
        let quoted = read(&[("paypal-request-id", "\"a")]);
        assert_eq!(quoted, Err(KeyFault::Malformed(Mistake::Unclosed)));
        assert!(!source.may_be_in_body());
    }

    #[test]
    fn the_key_may_be_a_member_of_the_body() {
        let uuid = "8E03978E-40D5-43E8-BC93-6894A57F9324";
        let key = |text: &str| Ok(Some(text.to_owned()));
        let source = KeySource::json_field("meta.request_id");
        let read = |content_type, body: &str, syntax| {
            read(
                &source,
                &head("/", &[("content-type", content_type)]),
                body,
                syntax,
            )
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
        assert_eq!(json("7", lenient), key("7"));
        assert_eq!(
            json("-12345678901234567890", lenient),
            key("-12345678901234567890")
        );
        let long = format!("\"{}\"", "a".repeat(256));
        for (value, mistake) in [
            ("1.0", Mistake::NotString),
            ("1e3", Mistake::NotString),
            ("true", Mistake::NotString),
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
        assert!(source.may_be_in_body());
    }

    #[test]
    fn the_refusal_names_the_header_or_the_member() {
        let syntax = KeySyntax::Lenient;
        let missing = KeySource::default().missing(&head("/", &[]), b"", syntax, Lang::En);
        assert_eq!(missing.code, "idempotency_key_missing");
        assert_eq!(missing.title, "Idempotency-Key is missing");
        let twice = KeySource::header(HeaderName::from_static("cko-idempotency-key"));
        let twice = twice.first.problem(KeyFault::Repeated, syntax, Lang::En);
        assert_eq!(twice.code, "idempotency_key_repeated");
        assert_eq!(
            twice.detail,
            "Send the header Cko-Idempotency-Key once, with 1 to 255 printable ASCII characters."
        );
        let field = KeySource::json_field("meta.request_id");
        let fault = KeyFault::Malformed(Mistake::NotString);
        let malformed = field.first.problem(fault, syntax, Lang::En);
        assert_eq!(malformed.code, "idempotency_key_malformed");
        assert_eq!(
            malformed.title,
            "meta.request_id cannot be read: it is not a string or a whole number"
        );
        assert_eq!(
            malformed.detail,
            "The member meta.request_id of the JSON body is not a string or a whole number. Send the member meta.request_id of the JSON body \
             once, with 1 to 255 printable ASCII characters."
        );
        let malformed = field.first.problem(fault, syntax, Lang::ZhHans);
        assert_eq!(
            malformed.detail,
            "JSON 请求体的成员 meta.request_id 无法读取：其值不是字符串或整数。JSON 请求体的成员 meta.request_id 必须且只能出现一次，\
             其值为 1 至 255 个可打印的 ASCII 字符"
        );
    }
}
