//! Reads how often the service has done its work.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Url};
use serde_json::Value;

use super::target::read_url;
use crate::exit::{Failure, with_causes};

/// Where the number of runs can be read.
pub(crate) struct Effect {
    url: Url,
    headers: HeaderMap,
    /// A JSON pointer (RFC 6901).
    pointer: String,
}

impl Effect {
    pub(crate) fn new(url: &str, path: &str, headers: &HeaderMap) -> Result<Self, Failure> {
        let mut headers = headers.clone();
        headers.remove(CONTENT_TYPE);
        Ok(Self {
            url: read_url(url)?,
            headers,
            pointer: pointer(path).ok_or_else(|| {
                Failure::usage("--effect-json must be a path such as `$.orders[0].count`")
            })?,
        })
    }

    pub(crate) async fn read(&self, client: &Client) -> Result<u64, Failure> {
        let wrong = |what: &str| Failure::runtime(format!("the effect cannot be read: {what}"));
        let get = client.get(self.url.clone()).headers(self.headers.clone());
        let response = get.send().await;
        let response = response.and_then(reqwest::Response::error_for_status);
        let response = response.map_err(|error| wrong(&with_causes(&error.without_url())))?;
        let body = response.bytes().await;
        let body = body.map_err(|error| wrong(&with_causes(&error.without_url())))?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| wrong("it is no JSON"))?;
        match body.pointer(&self.pointer) {
            Some(Value::Array(items)) => Ok(items.len() as u64),
            Some(Value::Number(number)) => number
                .as_u64()
                .ok_or_else(|| wrong("--effect-json leads to no whole number")),
            _ => Err(wrong("--effect-json leads to no number and no array")),
        }
    }
}

/// A path such as `$.orders[0].count` as a pointer: `/orders/0/count`.
fn pointer(path: &str) -> Option<String> {
    let mut pointer = String::new();
    let rest = path.strip_prefix('$')?.replace('[', ".").replace(']', "");
    for name in rest.split('.').skip(1) {
        if name.is_empty() {
            return None;
        }
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    (rest.is_empty() || rest.starts_with('.')).then_some(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_into_json() {
        for (path, expected) in [
            ("$", Some("")),
            ("$.count", Some("/count")),
            ("$.orders[0].a/b", Some("/orders/0/a~1b")),
            ("$[1]", Some("/1")),
            ("count", None),
            ("$count", None),
            ("$.a..b", None),
        ] {
            assert_eq!(pointer(path).as_deref(), expected, "{path}");
        }
    }
}
