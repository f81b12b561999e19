//! Which requests have the same payload: the digest of a request.
//!
//! Frozen: the digest is part of the payload in stored records, and old and new processes share a store during a deploy. A
//! change of this specification is a new name of a form.
//!
//! The digest is the SHA-256 of three lines, each with a line feed (`\n`) at its end, and a content:
//!
//! 1. the method, a space, the path, and, if there is a query, `?` and the query;
//! 2. the type and the subtype of the content type, in lower case and without parameters; nothing if there is no content type;
//! 3. the name of a form.
//!
//! None of their parts contains a line feed, and a path contains no `?`, so two requests never have the same lines by chance.
//!
//! | form | content |
//! | --- | --- |
//! | `raw` | the bytes of the body |
//! | `json` | the canonical text of the JSON value, as `payload/canonical.rs` specifies it |
//! | `form` | the list of the fields, as `payload/form.rs` specifies it |
//! | `multipart` | the list of the parts, as `payload/multipart.rs` specifies it |
//! | `none` | nothing |
//!
//! A body that cannot be read in the form that was asked for is `raw`: it has another content type, or it is malformed. Equal
//! bytes are the same payload in every form, so `raw` never takes two different payloads for one. The handler answers the
//! malformed body.
//!
//! Test vectors:
//!
//! | body | lines and content | SHA-256 |
//! | --- | --- | --- |
//! | `a=1` | `POST /pay?x=1\n\nraw\na=1` | `b8db52ee6fb1c18c78344feeebc0a6acb5a9ff37f13f92515fae519e4dfb0176` |
//! | ` {"b": [1.50, null], "a": "\u00e9"} ` | `POST /pay?x=1\napplication/json\njson\n{"a":"é","b":[15e-1,null]}` | `d8a34b93e17849a79878747db9c986c1d7520983d977676d3c24a7bfbdde1a45` |
//! | any | `POST /pay?x=1\napplication/json\nnone\n` | `024089c34bd4c1197a0fa702961207d242ad1119d20526b436dd15bcb31e3726` |

use std::borrow::Cow;

use ::http::{HeaderValue, Method, Uri};
use bytes::Bytes;
use idempotent_runtime::Lang;
use idempotent_runtime::port::http::Problem;
use sha2::{Digest, Sha256};

use self::json::UnreadJson;
use self::select::Path;
use crate::catalog;
use crate::request::content_type::{self, is_form, is_json};

pub(crate) mod canonical;
pub(crate) mod form;
pub(crate) mod json;
#[cfg(feature = "multipart")]
pub(crate) mod multipart;
pub(crate) mod select;

/// Which bodies count as the same payload. A request with a known key and another payload is refused with the status 422.
///
/// | | two bodies are the same if |
/// | --- | --- |
/// | [`raw`](Self::raw), the default | their bytes are equal |
/// | [`json`](Self::json) | they are the same JSON value |
/// | [`fields`](Self::fields) | they are the same JSON value in the named members |
/// | [`exclude`](Self::exclude) | they are the same JSON value without the named members |
/// | [`form`](Self::form) | they are forms with the same fields |
/// | `multipart` (feature `multipart`) | they have the same parts, with any boundary |
/// | [`none`](Self::none) | always |
///
/// The method, the path, the query and the content type of the request count in addition.
///
/// A client that repeats a request with the same bytes needs only `raw`. Use `json` if clients write the body again for each
/// try, because the order of the members may then differ.
///
/// ```
/// use idempotence::http::Payload;
///
/// // The app puts the time of the try into the body.
/// let payload = Payload::exclude(["sent_at", "device.battery"]);
/// # let _ = payload;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Payload(Form);

#[derive(Debug, Clone, Default)]
enum Form {
    #[default]
    Raw,
    Json(Members),
    Fields,
    #[cfg(feature = "multipart")]
    Multipart,
    None,
}

#[derive(Debug, Clone)]
enum Members {
    All,
    Only(Vec<Path>),
    Without(Vec<Path>),
}

impl Payload {
    pub(crate) const RAW: Self = Self(Form::Raw);

    /// Two bodies are the same payload if their bytes are equal.
    pub fn raw() -> Self {
        Self(Form::Raw)
    }

    /// Two bodies are the same payload if they are the same JSON value.
    ///
    /// * White space and the order of members do not count. The order of an array counts.
    /// * `1.0`, `1` and `1e0` are the same number. Numbers are never rounded: `9007199254740993` differs from
    ///   `9007199254740992`.
    /// * A member with the value `null` differs from no member.
    ///
    /// The content type must be JSON (`application/json`, `text/json`, or a type that ends with `+json`). A body of another
    /// type, or with a syntax error, is compared as [`raw`](Self::raw) bytes, and the handler answers it. A request is refused
    /// with the status 400 if an object in its body has two members with one name (parsers differ in which of the two they
    /// take), if the body is nested deeper than 128 levels, or if the exponent of a number does not fit in 64 bits.
    pub fn json() -> Self {
        Self(Form::Json(Members::All))
    }

    /// Two bodies are the same payload if they are the same JSON value in these members: `amount`, or `customer.id` for a
    /// member of a member. The other rules are the rules of [`json`](Self::json).
    ///
    /// A path continues in every element of an array. A missing member differs from a member with any value. A member whose
    /// name has a dot cannot be named.
    ///
    /// Members that are not named never count. If the body has none of the named members, for example because a name has a
    /// typing error, all bodies are the same.
    pub fn fields<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self(Form::Json(Members::Only(read_paths(paths))))
    }

    /// Two bodies are the same payload if they are the same JSON value without these members. The paths are as for
    /// [`fields`](Self::fields), and the other rules are the rules of [`json`](Self::json).
    pub fn exclude<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self(Form::Json(Members::Without(read_paths(paths))))
    }

    /// Two bodies of the type `application/x-www-form-urlencoded` are the same payload if they have the same fields: names and
    /// values, without their encoding.
    ///
    /// The order of fields with different names does not count, because some clients keep the fields in a hash map. The order of
    /// fields with the same name counts.
    ///
    /// A body of another type, or that is not UTF-8, is compared as [`raw`](Self::raw) bytes.
    pub fn form() -> Self {
        Self(Form::Fields)
    }

    /// Two bodies of the type `multipart/form-data` are the same payload if they have the same parts: name, file name, content
    /// type and bytes.
    ///
    /// The boundary between the parts does not count, because clients make a new boundary for every try. The order of parts
    /// with the same name counts, for example the order of uploaded files. The order of parts with different names does not
    /// count. Other headers of a part do not count.
    ///
    /// A body of another type, or that is malformed, is compared as [`raw`](Self::raw) bytes, and the handler answers it.
    #[cfg(feature = "multipart")]
    pub fn multipart() -> Self {
        Self(Form::Multipart)
    }

    /// All bodies are the same payload. Only the key, the method, the path, the query and the content type count.
    pub fn none() -> Self {
        Self(Form::None)
    }

    /// The digest of a request with this head and this body.
    pub(crate) fn digest(
        &self,
        head: &PayloadHead<'_>,
        body: &Bytes,
    ) -> Result<[u8; 32], PayloadFault> {
        let content_type = head.content_type;
        let readable = match &self.0 {
            Form::Raw => None,
            Form::Json(members) if is_json(content_type) => members.canonical(body)?,
            Form::Json(_) => None,
            Form::Fields if is_form(content_type) => form::canonical(body),
            Form::Fields => None,
            #[cfg(feature = "multipart")]
            Form::Multipart => multipart::canonical(content_type, body),
            Form::None => return Ok(head.sha256("\nnone\n", b"")),
        };
        Ok(match (readable, &self.0) {
            (None, _) => head.sha256("\nraw\n", body),
            (Some(fields), Form::Fields) => head.sha256("\nform\n", fields.as_bytes()),
            #[cfg(feature = "multipart")]
            (Some(parts), Form::Multipart) => head.sha256("\nmultipart\n", parts.as_bytes()),
            (Some(value), _) => head.sha256("\njson\n", value.as_bytes()),
        })
    }
}

/// What counts of the head of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadHead<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) content_type: Option<&'a HeaderValue>,
}

impl PayloadHead<'_> {
    /// The digest with this content. `form` is the line with the name of its form, with the line feed before it.
    fn sha256(&self, form: &str, content: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new_with_prefix(self.method.as_str());
        digest.update(b" ");
        digest.update(self.uri.path());
        if let Some(query) = self.uri.query() {
            digest.update(b"?");
            digest.update(query);
        }
        digest.update(b"\n");
        if let Some(essence) = essence(self.content_type) {
            digest.update(&*essence);
        }
        digest.update(form);
        digest.update(content);
        digest.finalize().into()
    }
}

impl Members {
    /// The canonical text of these members. `None` if the body is not JSON.
    fn canonical(&self, body: &[u8]) -> Result<Option<String>, PayloadFault> {
        let value = match json::parse(body) {
            Ok(value) => value,
            Err(UnreadJson::NotJson) => return Ok(None),
            Err(UnreadJson::DuplicateMember) => return Err(PayloadFault::DuplicateMember),
            Err(UnreadJson::TooDeep) => return Err(PayloadFault::TooDeep),
        };
        let value = match self {
            Self::All => value,
            Self::Only(paths) => select::only(value, &slices(paths)),
            Self::Without(paths) => select::without(value, &slices(paths)),
        };
        let mut text = String::with_capacity(body.len());
        canonical::write(&value, &mut text).map_err(|_| PayloadFault::OutOfRange)?;
        Ok(Some(text))
    }
}

fn read_paths<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Vec<Path> {
    let paths = paths.into_iter();
    paths.map(|dotted| select::path(&dotted.into())).collect()
}

fn slices(paths: &[Path]) -> Vec<&[String]> {
    paths.iter().map(Vec::as_slice).collect()
}

/// The type and the subtype of a content type, in lower case and without parameters.
fn essence(content_type: Option<&HeaderValue>) -> Option<Cow<'_, str>> {
    let essence = content_type::text(content_type)?;
    // Without an early end, because the compiler then compares many bytes at once.
    let has_capital = (essence.bytes()).fold(false, |any, byte| any | byte.is_ascii_uppercase());
    Some(if has_capital {
        essence.to_ascii_lowercase().into()
    } else {
        essence.into()
    })
}

/// Why the payload of a request cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadFault {
    DuplicateMember,
    TooDeep,
    OutOfRange,
}

impl PayloadFault {
    /// The body of the response.
    pub(crate) fn problem(self, lang: Lang) -> Problem {
        let row = match self {
            Self::DuplicateMember => &catalog::MEMBER_TWICE,
            Self::TooDeep => &catalog::TOO_DEEP,
            Self::OutOfRange => &catalog::OUT_OF_RANGE,
        };
        row.problem("", lang)
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests;
