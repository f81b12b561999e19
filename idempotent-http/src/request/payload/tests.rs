use ::http::StatusCode;

use super::*;

fn digest(payload: &Payload, content_type: &str, body: &str) -> Result<[u8; 32], PayloadFault> {
    let content_type = (!content_type.is_empty()).then(|| content_type.parse().unwrap());
    let head = PayloadHead {
        method: &Method::POST,
        uri: &Uri::from_static("/pay?x=1"),
        content_type: content_type.as_ref(),
    };
    payload.digest(&head, &Bytes::copy_from_slice(body.as_bytes()))
}

fn hex(digest: Result<[u8; 32], PayloadFault>) -> String {
    let mut digits = [0; 64];
    let hex = base16ct::lower::encode_str(&digest.unwrap(), &mut digits).unwrap();
    hex.to_owned()
}

const JSON: &str = "application/json";

/// The rows of the test vectors in the docs of this room: the digest that they write for this content.
fn vector(content: &str) -> &'static str {
    let docs = concat!(include_str!("../payload.rs"), include_str!("multipart.rs"));
    let line = docs
        .lines()
        .find(|line| line.starts_with("//!") && line.contains(content));
    let line = line.expect(content);
    line.rsplit('`').nth(1).expect(content)
}

#[test]
fn the_test_vectors_are_right() {
    let raw = hex(digest(&Payload::raw(), "", "a=1"));
    assert_eq!(raw, vector(r"`POST /pay?x=1\n\nraw\na=1`"));
    assert_eq!(
        raw,
        "b8db52ee6fb1c18c78344feeebc0a6acb5a9ff37f13f92515fae519e4dfb0176"
    );
    let body = r#" {"b": [1.50, null], "a": "\u00e9"} "#;
    let json = hex(digest(&Payload::json(), JSON, body));
    assert_eq!(json, vector(r#"\njson\n{"a":"é","b":[15e-1,null]}`"#));
    assert_eq!(
        json,
        "d8a34b93e17849a79878747db9c986c1d7520983d977676d3c24a7bfbdde1a45"
    );
    let none = hex(digest(&Payload::none(), JSON, body));
    assert_eq!(none, vector(r"\nnone\n`"));
    assert_eq!(
        none,
        "024089c34bd4c1197a0fa702961207d242ad1119d20526b436dd15bcb31e3726"
    );
}

#[test]
fn the_method_the_path_the_query_and_the_type_count() {
    let digest = |method: &Method, uri: &'static str, content_type: &'static str, body| {
        let content_type = HeaderValue::from_static(content_type);
        let head = PayloadHead {
            method,
            uri: &Uri::from_static(uri),
            content_type: (!content_type.is_empty()).then_some(&content_type),
        };
        hex(Payload::raw().digest(&head, &Bytes::from_static(body)))
    };
    let post = &Method::POST;
    let digests = [
        digest(post, "/pay", "a/b", b"raw\n"),
        digest(post, "/pay", "a/b", b"raw\nraw\n"),
        digest(post, "/pay", "", b"raw\n"),
        digest(post, "/pay", "raw", b""),
        digest(post, "/pay", "", b"raw\nraw\n"),
        digest(post, "/pay?", "a/b", b"raw\n"),
        digest(post, "/pay?a=1", "a/b", b"raw\n"),
        digest(post, "/pay/", "a/b", b"raw\n"),
        digest(&Method::PATCH, "/pay", "a/b", b"raw\n"),
    ];
    let different: std::collections::HashSet<_> = digests.iter().collect();
    assert_eq!(different.len(), digests.len());
    let same = digest(post, "/pay", "A/b ; charset=utf-8", b"raw\n");
    assert_eq!(same, digests[0]);
}

#[test]
fn raw_bodies_are_compared_byte_for_byte() {
    let raw = |body| digest(&Payload::default(), JSON, body);
    assert_eq!(raw("{}"), raw("{}"));
    assert_ne!(raw("{}"), raw("{ }"));
}

#[test]
fn the_order_of_members_does_not_count_but_null_does() {
    let json = |body| digest(&Payload::json(), JSON, body);
    assert_eq!(json(r#"{"a":1,"b":2.0}"#), json(r#"{"b":2,"a":1e0}"#));
    assert_ne!(json(r#"{"a":null}"#), json("{}"));
    assert_ne!(json("[1,2]"), json("[2,1]"));
    assert_ne!(json("9007199254740993"), json("9007199254740992"));
    assert_ne!(json("\"1\""), json("1"));
}

#[test]
fn a_type_with_the_suffix_json_is_json() {
    let bodies = [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#];
    let is_semantic = |content_type| {
        let [one, other] = bodies.map(|body| digest(&Payload::json(), content_type, body));
        one == other
    };
    for json in [
        JSON,
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json ;charset=utf-8",
        "text/json",
        "application/merge-patch+json",
        "application/vnd.api+json;ext=\"a\"",
    ] {
        assert!(is_semantic(json), "{json}");
    }
    for other in [
        "",
        "text/plain",
        "application/jsonp",
        "application/x-ndjson",
        "json",
        "a/json+b",
    ] {
        assert!(!is_semantic(other), "{other}");
    }
}

#[test]
fn a_body_that_is_not_json_is_compared_byte_for_byte() {
    let raw = Payload::raw();
    for payload in [
        Payload::json(),
        Payload::fields(["a"]),
        Payload::exclude(["a"]),
    ] {
        for body in ["", "{", "{'a':1}", "a=1", "{\"a\":1} x"] {
            assert_eq!(
                digest(&payload, JSON, body),
                digest(&raw, JSON, body),
                "{body}"
            );
        }
        let body = r#"{"a":1}"#;
        assert_eq!(
            digest(&payload, "text/plain", body),
            digest(&raw, "text/plain", body)
        );
    }
}

#[test]
fn a_raw_body_cannot_pretend_to_be_another_form() {
    let json = digest(&Payload::json(), JSON, "1");
    for body in ["1", "json\n1", "raw\n1"] {
        assert_ne!(digest(&Payload::raw(), JSON, body), json, "{body:?}");
    }
    let fallback = digest(&Payload::json(), JSON, "json\n1");
    assert_ne!(fallback, json);
}

#[test]
fn a_body_with_more_than_one_meaning_is_refused_with_advice() {
    let deep = "[".repeat(129) + &"]".repeat(129);
    for (body, fault, text) in [
        (
            r#"{"a":1,"a":2}"#,
            PayloadFault::DuplicateMember,
            "two members with one name",
        ),
        (deep.as_str(), PayloadFault::TooDeep, "128 levels"),
        (
            "1e99999999999999999999",
            PayloadFault::OutOfRange,
            "exponent",
        ),
    ] {
        for payload in [Payload::json(), Payload::exclude(["x"])] {
            assert_eq!(digest(&payload, JSON, body), Err(fault), "{body}");
        }
        assert!(digest(&Payload::raw(), JSON, body).is_ok());
        assert!(fault.problem(Lang::En).detail.contains(text), "{fault:?}");
        let problem = fault.problem(Lang::ZhHans);
        assert_eq!(
            (problem.status, problem.code),
            (StatusCode::BAD_REQUEST, "payload_malformed")
        );
        assert!(problem.detail.contains("JSON 请求体") && problem.detail.contains("请"));
    }
}

#[test]
fn the_number_of_a_member_that_does_not_count_may_be_out_of_range() {
    let body = r#"{"a":1e99999999999999999999,"b":1}"#;
    assert!(digest(&Payload::exclude(["a"]), JSON, body).is_ok());
    assert!(digest(&Payload::fields(["b"]), JSON, body).is_ok());
}

#[cfg(feature = "multipart")]
mod forms {
    use super::*;

    /// A form with a text and a file.
    fn form(boundary: &str) -> String {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"b\"; filename=\"x.txt\"\r\n\
             Content-Type: text/plain\r\n\r\n\r\n--{boundary}--\r\n"
        )
    }

    fn multipart(boundary: &str, body: &str) -> Result<[u8; 32], PayloadFault> {
        let content_type = format!("multipart/form-data; boundary=\"{boundary}\"");
        digest(&Payload::multipart(), &content_type, body)
    }

    #[test]
    fn the_test_vector_is_right() {
        let digest = hex(multipart("X", &form("X")));
        assert_eq!(digest, vector("Its SHA-256 is"));
        assert_eq!(
            digest,
            "f484336fe2547fd8ab19020b0f11e197b3065e8bb107e0bc770719b10c88ae4f"
        );
    }

    #[test]
    fn the_boundary_does_not_count() {
        let first = multipart("X", &form("X"));
        let second = multipart(
            "----WebKitFormBoundary7MA4",
            &form("----WebKitFormBoundary7MA4"),
        );
        assert_eq!(first, second);
    }

    #[test]
    fn every_property_of_a_part_counts() {
        let first = multipart("X", &form("X"));
        for (from, to) in [
            ("name=\"a\"", "name=\"c\""),
            ("x.txt", "y.txt"),
            ("; filename=\"x.txt\"", ""),
            ("text/plain", "text/html"),
            ("\r\n\r\n1\r\n", "\r\n\r\n2\r\n"),
        ] {
            let changed = form("X").replace(from, to);
            assert_ne!(changed, form("X"));
            assert_ne!(multipart("X", &changed), first, "{from} {to}");
        }
    }

    #[test]
    fn the_order_counts_only_for_parts_with_one_name() {
        let form = |parts: &[(&str, &str)]| {
            let parts = parts.iter().map(|(name, value)| {
                format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            });
            let body: String = parts.collect();
            multipart("X", &(body + "--X--\r\n"))
        };
        assert_eq!(
            form(&[("a", "1"), ("b", "2")]),
            form(&[("b", "2"), ("a", "1")])
        );
        assert_eq!(
            form(&[("a", "1"), ("b", "x"), ("a", "2")]),
            form(&[("a", "1"), ("a", "2"), ("b", "x")])
        );
        assert_ne!(
            form(&[("a", "1"), ("a", "2")]),
            form(&[("a", "2"), ("a", "1")])
        );
        assert_ne!(form(&[("a", "1"), ("a", "1")]), form(&[("a", "1")]));
    }

    #[test]
    fn a_body_that_is_not_a_form_is_compared_byte_for_byte() {
        let raw = |content_type: &str, body| digest(&Payload::raw(), content_type, body);
        let whole = form("X");
        for (content_type, body) in [
            ("multipart/form-data; boundary=X", &whole[..whole.len() - 5]),
            ("multipart/form-data; boundary=Y", &whole),
            ("multipart/form-data", &whole),
            ("multipart/mixed; boundary=X", &whole),
            ("text/plain", &whole),
            ("", &whole),
            ("multipart/form-data; boundary=X", ""),
        ] {
            let found = digest(&Payload::multipart(), content_type, body);
            assert_eq!(found, raw(content_type, body), "{content_type} {body}");
        }
    }
}
