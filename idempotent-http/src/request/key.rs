//! The key of a request: which header has it, and which values are a key.

use std::borrow::Cow;

use ::http::header::AsHeaderName;
use ::http::{HeaderMap, HeaderName};
use idempotent_runtime::port::http::{HeaderFault, Mistake, Repeated, single_value};

use crate::request::key::text::KeySyntax;

pub(crate) mod parameters;
mod place;
pub(crate) mod source;
pub(crate) mod text;

/// Why a header has no key, although the request has the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Repeated,
    Malformed(Mistake),
}

/// Reads the key in this header. `None` if the request does not have the header.
pub(crate) fn read_key(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    syntax: KeySyntax,
) -> Result<Option<Cow<'_, str>>, KeyFault> {
    let value = single_value(headers, name).map_err(|Repeated| KeyFault::Repeated)?;
    let key = value.map(|value| text::read(value.as_bytes(), syntax));
    key.transpose().map_err(KeyFault::Malformed)
}

impl KeyFault {
    pub(crate) const fn fault(self) -> HeaderFault {
        match self {
            Self::Repeated => HeaderFault::Repeated,
            Self::Malformed(_) => HeaderFault::Malformed,
        }
    }

    pub(crate) const fn mistake(self) -> Option<Mistake> {
        match self {
            Self::Repeated => None,
            Self::Malformed(mistake) => Some(mistake),
        }
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
