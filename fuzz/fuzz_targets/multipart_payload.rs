//! Any body as a form: it is read or refused, and the same parts with another boundary have the same text. The first byte of
//! the input chooses between arbitrary bytes and a form whose parts are separated by byte 255.
#![no_main]

use bytes::Bytes;
use http::HeaderValue;
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../idempotent-http/src/request/payload"]
mod payload {
    pub(crate) mod canonical;
    pub(crate) mod json;
    mod multipart;

    pub(crate) fn text(boundary: &str, body: Vec<u8>) -> Option<String> {
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let content_type = super::HeaderValue::try_from(content_type).ok()?;
        multipart::canonical(Some(&content_type), &super::Bytes::from(body))
    }
}

fn form(boundary: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n").bytes(),
        );
        body.extend(*part);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    body
}

fuzz_target!(|input: &[u8]| match input {
    [] => {}
    [first, body @ ..] if first % 2 == 0 => {
        if let Some(text) = payload::text("X", body.to_vec()) {
            payload::json::parse(text.as_bytes()).expect("the text of a form is JSON");
        }
    }
    [_, parts @ ..] => {
        let boundaries = ["first-boundary", "----SecondBoundary0123456789"];
        let contains = |text: &str| {
            parts
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        if boundaries.into_iter().any(contains) {
            return;
        }
        let parts: Vec<&[u8]> = parts.split(|byte| *byte == 255).collect();
        let [one, other] =
            boundaries.map(|boundary| payload::text(boundary, form(boundary, &parts)));
        assert!(one.is_some(), "{parts:?}");
        assert_eq!(one, other);
    }
});
