//! Two bodies have the same digest if, and only if, they are the same payload.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use arbtest::arbitrary::{Result, Unstructured};
use serde::de::IgnoredAny;

use super::*;
use crate::cases::cases;
use value::Value;

mod value;

fn head(content_type: &HeaderValue) -> PayloadHead<'_> {
    static ROOT: LazyLock<Uri> = LazyLock::new(Uri::default);
    PayloadHead {
        method: &Method::POST,
        uri: &ROOT,
        content_type: Some(content_type),
    }
}

fn digest(payload: &Payload, body: &str) -> [u8; 32] {
    let json = HeaderValue::from_static("application/json");
    let body = Bytes::copy_from_slice(body.as_bytes());
    payload
        .digest(&head(&json), &body)
        .expect("the body has no duplicate members, 128 levels at most, and small exponents")
}

fn written(u: &mut Unstructured<'_>, value: &Value) -> Result<String> {
    let mut text = String::new();
    value.write(u, &mut text)?;
    Ok(text)
}

#[test]
fn bodies_share_a_digest_if_and_only_if_they_are_the_same_json_value() {
    let (mut equal, mut near) = (0, 0);
    cases(600, |u| {
        let one = Value::any(u, 3)?;
        let other = match u.int_in_range(0..=2)? {
            0 => Value::any(u, 3)?,
            1 => one.clone(),
            _ => one.almost(u)?,
        };
        let (first, second) = (written(u, &one)?, written(u, &other)?);
        let payload = Payload::json();
        let is_same = digest(&payload, &first) == digest(&payload, &second);
        assert_eq!(is_same, one == other, "{first}\n{second}");
        equal += u32::from(is_same);
        near += u32::from(!is_same);
        Ok(())
    });
    assert!(
        equal > 1_000 && near > 1_000,
        "{equal} equal, {near} different"
    );
}

/// Whether the member with this name counts.
type Keep = fn(&str) -> bool;

#[test]
fn only_the_chosen_members_count() {
    let without = |value: &Value, keep: Keep| match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<BTreeMap<_, _>>(),
        ),
        value => value.clone(),
    };
    let (mut equal, mut near) = (0, 0);
    cases(600, |u| {
        let one = Value::object(u, 2)?;
        let other = if u.ratio(1, 4)? {
            Value::object(u, 2)?
        } else {
            one.almost(u)?
        };
        let (first, second) = (written(u, &one)?, written(u, &other)?);
        let rules: [(Payload, Keep); 2] = [
            (Payload::fields(["at", "id"]), |name| {
                matches!(name, "at" | "id")
            }),
            (Payload::exclude(["at", "id"]), |name| {
                !matches!(name, "at" | "id")
            }),
        ];
        for (payload, keep) in rules {
            let is_same = digest(&payload, &first) == digest(&payload, &second);
            let expected = without(&one, keep) == without(&other, keep);
            assert_eq!(is_same, expected, "{payload:?}\n{first}\n{second}");
            equal += u32::from(is_same);
            near += u32::from(!is_same);
        }
        Ok(())
    });
    assert!(
        equal > 1_000 && near > 1_000,
        "{equal} equal, {near} different"
    );
}

#[test]
fn any_text_is_json_if_and_only_if_another_parser_reads_it() {
    let (mut read, mut refused) = (0, 0);
    cases(300, |u| {
        let value = Value::any(u, 2)?;
        let mut text = written(u, &value)?.into_bytes();
        for _ in 0..u.int_in_range(0..=2)? {
            let at = u.choose_index(text.len().max(1))?;
            match u.int_in_range(0..=3)? {
                _ if text.is_empty() => text.push(u.arbitrary()?),
                0 => text[at] = u.arbitrary()?,
                1 => text[at] = *u.choose(b"\"\\{}[]:,0e.-\n\x00")?,
                2 => drop(text.remove(at)),
                _ => text.insert(at, *u.choose(b"\"\\{}[]:,0e.-u")?),
            }
        }
        let shown = text.escape_ascii();
        let other = std::str::from_utf8(&text)
            .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        match json::parse(&text) {
            Ok(_) => {
                read += 1;
                assert!(other, "{shown}");
            }
            // The other parser does not look at surrogates of strings that it ignores.
            Err(UnreadJson::NotJson) if text.windows(2).any(|pair| pair == b"\\u") => {}
            Err(UnreadJson::NotJson) => {
                refused += 1;
                assert!(!other, "{shown}");
            }
            Err(UnreadJson::DuplicateMember | UnreadJson::TooDeep) => {}
        }
        Ok(())
    });
    assert!(
        read > 1_000 && refused > 1_000,
        "{read} read, {refused} refused"
    );
}

#[cfg(feature = "multipart")]
mod forms {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Part {
        name: &'static str,
        file_name: Option<&'static str>,
        content_type: Option<&'static str>,
        bytes: Vec<u8>,
    }

    fn part(u: &mut Unstructured<'_>) -> Result<Part> {
        let bytes = match u.int_in_range(0..=3)? {
            0 => u.arbitrary()?,
            1 => b"\r\n--".to_vec(),
            2 => b"x".to_vec(),
            _ => Vec::new(),
        };
        Ok(Part {
            name: u.choose(&["a", "b", "c"])?,
            file_name: *u.choose(&[None, Some("x.txt"), Some("y z.txt")])?,
            content_type: *u.choose(&[None, Some("text/plain"), Some("image/png")])?,
            bytes,
        })
    }

    fn form(u: &mut Unstructured<'_>, parts: &[Part]) -> Result<(HeaderValue, Bytes)> {
        let boundary = format!("----boundary{:032x}", u.arbitrary::<u128>()?);
        let mut body = Vec::new();
        for part in parts {
            body.extend(
                format!(
                    "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
                    part.name
                )
                .bytes(),
            );
            if let Some(file_name) = part.file_name {
                body.extend(format!("; filename=\"{file_name}\"").bytes());
            }
            body.extend(b"\r\n");
            if let Some(content_type) = part.content_type {
                body.extend(format!("content-type: {content_type}\r\n").bytes());
            }
            body.extend(b"\r\n");
            body.extend(&part.bytes);
            body.extend(b"\r\n");
        }
        body.extend(format!("--{boundary}--\r\n").bytes());
        let content_type = format!("multipart/form-data; boundary={boundary}");
        Ok((content_type.parse().expect("a content type"), body.into()))
    }

    #[test]
    fn forms_share_a_digest_if_and_only_if_they_have_the_same_parts() {
        let (mut equal, mut near) = (0, 0);
        cases(600, |u| {
            let one: Vec<Part> = (0..u.int_in_range(0..=4)?)
                .map(|_| part(u))
                .collect::<Result<_>>()?;
            let mut other = one.clone();
            if !other.is_empty() {
                let (at, to) = (u.choose_index(other.len())?, u.choose_index(other.len())?);
                match u.int_in_range(0..=3)? {
                    0 => other.swap(at, to),
                    1 => other[at] = part(u)?,
                    2 => drop(other.remove(at)),
                    _ => {}
                }
            }
            let by_name = |parts: &[Part]| {
                let mut parts = parts.to_vec();
                parts.sort_by_key(|part| part.name);
                parts
            };
            let [first, second] = [form(u, &one)?, form(u, &other)?].map(|(content_type, body)| {
                let digest = Payload::multipart().digest(&head(&content_type), &body);
                let raw = Payload::raw().digest(&head(&content_type), &body);
                assert_ne!(
                    digest,
                    raw,
                    "the form was not read: {}",
                    body.escape_ascii()
                );
                digest
            });
            let is_same = first == second;
            assert_eq!(
                is_same,
                by_name(&one) == by_name(&other),
                "{one:?}\n{other:?}"
            );
            equal += u32::from(is_same);
            near += u32::from(!is_same);
            Ok(())
        });
        assert!(
            equal > 1_000 && near > 1_000,
            "{equal} equal, {near} different"
        );
    }
}
