//! One place in which a request may have its key.

use std::borrow::Cow;

use ::http::{HeaderMap, HeaderName, HeaderValue, header, request};
use idempotent_runtime::Lang;
use idempotent_runtime::port::http::{Carrier, HeaderFault, Id, IdFault, Mistake, Problem};

use super::text;
use super::{KeyFault, read_key, usual_case};
use crate::request::content_type::{is_file, is_form, is_json};
use crate::request::key::text::KeySyntax;
use crate::request::payload::form;
use crate::request::payload::json::{self, UnreadJson, Value};
use crate::request::payload::select;

/// One place in which a request may have its key.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Header(HeaderName),
    /// A parameter of the query.
    Query(String),
    /// A member of the JSON body.
    Member {
        dotted: String,
        path: select::Path,
        only_json_types: bool,
    },
    /// A field of a form.
    Field(String),
}

impl Place {
    /// Whether the key can be read only after the body.
    pub(super) fn is_in_body(&self) -> bool {
        matches!(self, Self::Member { .. } | Self::Field(_))
    }

    /// Whether a request with this head may have a key here.
    pub(super) fn may_be_in(&self, head: &request::Parts) -> bool {
        let content_type = || head.headers.get(header::CONTENT_TYPE);
        match self {
            Self::Header(name) => head.headers.contains_key(name),
            Self::Query(name) => parameters(head, name).next().is_some(),
            Self::Member {
                only_json_types, ..
            } => is_json(content_type()) || (!only_json_types && !is_file(content_type())),
            Self::Field(_) => is_form(content_type()),
        }
    }

    /// Reads the key. `None` if it is not here.
    pub(super) fn read<'a>(
        &self,
        head: &'a request::Parts,
        body: &[u8],
        syntax: KeySyntax,
    ) -> Result<Option<Cow<'a, str>>, KeyFault> {
        if self.is_in_body() && !self.may_be_in(head) {
            return Ok(None);
        }
        let key = match self {
            Self::Header(name) => return read_key(&head.headers, name, syntax),
            Self::Query(name) => single(parameters(head, name), syntax)?,
            Self::Member { path, .. } => {
                read_member(body, path, syntax).map_err(KeyFault::Malformed)?
            }
            Self::Field(name) => single(values(body, name), syntax)?,
        };
        Ok(key.map(Cow::Owned))
    }

    /// The refusal of a key with this fault.
    pub(super) fn problem(&self, fault: KeyFault, syntax: KeySyntax, lang: Lang) -> Problem {
        let (fault, mistake) = (fault.fault(), fault.mistake());
        self.with_fault(fault, mistake, syntax, |fault| fault.problem(lang))
    }

    /// The refusal of a request that has no key here. It says if the request cannot have one.
    pub(super) fn missing(
        &self,
        head: &request::Parts,
        body: &[u8],
        syntax: KeySyntax,
        lang: Lang,
    ) -> Problem {
        let (fault, mistake) = (HeaderFault::Missing, self.why_missing(head, body));
        self.with_fault(fault, mistake, syntax, |fault| fault.problem(lang))
    }

    /// Why a request has no key here, in one line for the log.
    pub(super) fn absence(&self, head: &request::Parts, body: &[u8]) -> String {
        let (fault, mistake) = (HeaderFault::Missing, self.why_missing(head, body));
        self.with_fault(fault, mistake, KeySyntax::Opaque, |fault| fault.absence())
    }

    fn why_missing(&self, head: &request::Parts, body: &[u8]) -> Option<Mistake> {
        let other_type = match self {
            Self::Header(_) | Self::Query(_) => return None,
            Self::Member { .. } => Mistake::OtherType,
            Self::Field(_) => Mistake::NotForm,
        };
        if !self.may_be_in(head) {
            return Some(other_type);
        }
        let is_member = matches!(self, Self::Member { .. });
        let is_readable = if is_member {
            json::parse(body).is_ok()
        } else {
            form::fields(body).next().is_some()
        };
        if is_readable {
            None
        } else if is_compressed(&head.headers) {
            Some(Mistake::Compressed)
        } else {
            is_member.then_some(Mistake::NotJson)
        }
    }

    fn with_fault<T>(
        &self,
        fault: HeaderFault,
        mistake: Option<Mistake>,
        syntax: KeySyntax,
        then: impl FnOnce(IdFault<'_>) -> T,
    ) -> T {
        let name;
        let carrier = match self {
            Self::Header(header) => {
                name = usual_case(header);
                Carrier::Header(&name)
            }
            Self::Query(name) => Carrier::Query(name),
            Self::Member { dotted, .. } => Carrier::Member(dotted),
            Self::Field(name) => Carrier::Field(name),
        };
        then(IdFault {
            id: Id::IdempotencyKey(syntax.expected()),
            carrier,
            fault,
            mistake,
        })
    }
}

fn read_member(body: &[u8], path: &[String], syntax: KeySyntax) -> Result<Option<String>, Mistake> {
    let body = match json::parse(body) {
        Ok(body) => body,
        Err(UnreadJson::NotJson) => return Ok(None),
        Err(UnreadJson::DuplicateMember) => return Err(Mistake::DuplicateMember),
        Err(UnreadJson::TooDeep) => return Err(Mistake::TooDeep),
    };
    let text = match select::member(&body, path) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        // `1` and `1.0` would be two keys.
        Some(Value::Number(number)) if !number.contains(['.', 'e', 'E']) => *number,
        Some(_) => return Err(Mistake::NotString),
    };
    let key = text::read_text(text, syntax)?;
    Ok(Some(key.into_owned()))
}

/// The values of a parameter of the query.
fn parameters<'a>(head: &'a request::Parts, name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    values(head.uri.query().unwrap_or_default().as_bytes(), name)
}

/// The values of a field.
fn values<'a>(form: &'a [u8], name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let fields = form::fields(form).filter(move |(field, _)| **field == *name.as_bytes());
    fields.map(|(_, value)| value)
}

/// The key in a value that is there at most once.
fn single<'a>(
    mut values: impl Iterator<Item = Cow<'a, [u8]>>,
    syntax: KeySyntax,
) -> Result<Option<String>, KeyFault> {
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(KeyFault::Repeated);
    }
    let key = str::from_utf8(&value).map_err(|_| Mistake::Unprintable);
    let key = key.and_then(|key| text::read_text(key, syntax));
    let key = key.map_err(KeyFault::Malformed)?;
    Ok(Some(key.into_owned()))
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding: &HeaderValue| *coding != "identity")
}
