//! The request of the arguments, and its variations.

use std::fs;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use super::scenario::{Body, Need, Shape};
use crate::args::Probe;
use crate::exit::Failure;

/// The request that is sent, and what may differ in it.
pub(crate) struct Target {
    pub(crate) method: Method,
    url: Url,
    other_url: Option<Url>,
    pub(crate) headers: HeaderMap,
    other_auth: Option<HeaderValue>,
    body: Vec<u8>,
    other_body: Option<Vec<u8>>,
    failing_body: Option<Vec<u8>>,
}

/// What a client of an API accepts: some services describe a problem only to a client that asks for it.
const ACCEPTED: &str = "application/problem+json, application/json, */*;q=0.1";

/// The text in a body that differs among scenarios, for a service that refuses two equal orders.
const UNIQUE: &str = "{{unique}}";

impl Target {
    pub(crate) fn read(args: &Probe) -> Result<Self, Failure> {
        let method = args.method.to_ascii_uppercase().parse();
        let body = read_text(&args.body)?;
        let mut headers = HeaderMap::new();
        for argument in &args.headers {
            let text = String::from_utf8(read_text(argument)?);
            let text = text.map_err(|_| Failure::usage("a header is no text"))?;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let (name, value) = read_header(line)?;
                headers.append(name, value);
            }
        }
        if !body.is_empty() && is_json(&body) && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if !headers.contains_key(ACCEPT) {
            headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        }
        let other_body = args.other_body.as_deref().map(read_text).transpose()?;
        Ok(Self {
            method: method.map_err(|_| Failure::usage("--method is no method of HTTP"))?,
            url: read_url(&args.url)?,
            other_url: args.other_url.as_deref().map(read_url).transpose()?,
            headers,
            other_auth: args.other_auth.as_deref().map(read_auth).transpose()?,
            other_body: other_body.or_else(|| another(&body)),
            failing_body: args.failing_body.as_deref().map(read_text).transpose()?,
            body,
        })
    }

    pub(crate) fn has(&self, need: Need) -> bool {
        match need {
            Need::OtherBody => self.other_body.is_some(),
            Need::FailingBody => self.failing_body.is_some(),
            Need::OtherPath => self.other_url.is_some(),
            Need::OtherUser => self.other_auth.is_some(),
        }
    }

    pub(crate) fn url(&self, shape: Shape) -> &Url {
        let other = self.other_url.as_ref().filter(|_| shape.is_other_path);
        other.unwrap_or(&self.url)
    }

    pub(crate) fn headers(&self, shape: Shape) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(other) = self.other_auth.as_ref().filter(|_| shape.is_other_user) {
            headers.insert(AUTHORIZATION, other.clone());
        }
        headers
    }

    /// The body, in which each [`UNIQUE`] is this text.
    pub(crate) fn body(&self, shape: Shape, unique: &str) -> Vec<u8> {
        let other = match shape.body {
            Body::Usual => None,
            Body::Other => self.other_body.as_ref(),
            Body::Failing => self.failing_body.as_ref(),
        };
        let body = other.unwrap_or(&self.body);
        match std::str::from_utf8(body) {
            Ok(text) => text.replace(UNIQUE, unique).into_bytes(),
            Err(_) => body.clone(),
        }
    }

    /// The URL without parts that may be secret.
    pub(crate) fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string()
    }
}

pub(super) fn read_url(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    url.ok_or_else(|| {
        Failure::usage("a URL must begin with `http://` or `https://`, and have a host")
    })
}

fn read_auth(text: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_bytes(read_text(text)?.trim_ascii());
    value.map_err(|_| Failure::usage("--other-auth is no value of a header"))
}

/// Does not repeat the header in an error, because it may be a password.
fn read_header(line: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let wrong = || Failure::usage("a header must be `Name: value`");
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let name = name.trim().parse().map_err(|_| wrong())?;
    let value = value.trim().parse().map_err(|_| wrong())?;
    Ok((name, value))
}

/// A text of the arguments, or the content of the file that it names.
fn read_text(text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        None => Ok(text.as_bytes().to_vec()),
        Some(file) => {
            fs::read(file).map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))
        }
    }
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok()
}

/// The body of another order: the first text or number in it is another. `None` if the body is no JSON with a text or a number.
fn another(body: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    change(&mut value)
        .then(|| serde_json::to_vec(&value).ok())
        .flatten()
}

fn change(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            text.push_str("-2");
            true
        }
        Value::Number(number) => {
            let next = number.as_i64().and_then(|number| number.checked_add(1));
            if let Some(next) = next {
                *value = next.into();
            }
            next.is_some()
        }
        Value::Array(items) => items.iter_mut().any(change),
        Value::Object(members) => members.values_mut().any(change),
        Value::Null | Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_order_differs_in_its_first_text_or_number() {
        for (body, other) in [
            (r#"{"a":1,"b":2}"#, Some(r#"{"a":2,"b":2}"#)),
            (
                r#"{"a":null,"b":{"c":["x"]}}"#,
                Some(r#"{"a":null,"b":{"c":["x-2"]}}"#),
            ),
            ("[true]", None),
            ("a=1", None),
            ("", None),
        ] {
            let found = another(body.as_bytes());
            assert_eq!(found.as_deref(), other.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let (name, value) = read_header("Authorization:  Bearer a:b ").expect("a header");
        assert_eq!(
            (name.as_str(), value.as_bytes()),
            ("authorization", &b"Bearer a:b"[..])
        );
        let failure = read_header("s3cret").expect_err("no header");
        assert!(!failure.text.contains("s3cret"));
    }
}
