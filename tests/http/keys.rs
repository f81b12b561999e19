//! Which headers and bodies have a key.

use axum::Router;
use axum::routing::post as on_post;
use http::header::HeaderValue;
use idempotence::http::{KeySource, KeySyntax};

use support::http_client::{Orders, Reply, Service, idempotency, post, scoped};

async fn shop(source: KeySource, syntax: KeySyntax) -> (Service, Orders) {
    let layer = scoped(&idempotency()).key_from(source).key_syntax(syntax);
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new()
        .route("/", on_post(place))
        .layer(layer.build());
    (Service::start(app).await, orders)
}

async fn send(service: &Service, value: &[u8]) -> Reply {
    let value = HeaderValue::from_bytes(value).unwrap();
    service
        .send(post("/").header("idempotency-key", value), "")
        .await
}

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

const SYNTAXES: [KeySyntax; 3] = [KeySyntax::Lenient, KeySyntax::Strict, KeySyntax::Uuid];

/// Values of the header, and whether each of `SYNTAXES` accepts them.
fn values() -> Vec<(Vec<u8>, [bool; 3])> {
    let quoted = |length: usize| format!("\"{}\"", "a".repeat(length)).into_bytes();
    let mut values = vec![
        (format!("\"{UUID}\"").into_bytes(), [true; 3]),
        (UUID.as_bytes().to_vec(), [true, false, true]),
        (br#""a\"b\\c""#.to_vec(), [true, true, false]),
        (b"\"abc\";v=1".to_vec(), [true, true, false]),
        (b"\"a,b\"".to_vec(), [true, true, false]),
        (b"\"a b\"".to_vec(), [true, true, false]),
        (quoted(255), [true, true, false]),
        (quoted(256), [false; 3]),
        ("a".repeat(256).into_bytes(), [false; 3]),
    ];
    for refused in [
        "\"abc",
        "abc\"",
        "\"a\" \"b\"",
        "",
        "\"\"",
        "   ",
        "\"  \"",
        "é",
        "\"é\"",
        "\"a\tb\"",
        "a,b",
        "a b",
        "\"abc\";",
        "\"abc\";V=1",
    ] {
        values.push((refused.as_bytes().to_vec(), [false; 3]));
    }
    values
}

#[tokio::test]
async fn every_value_of_the_header_is_a_key_or_a_bad_request() {
    for (at, syntax) in SYNTAXES.into_iter().enumerate() {
        let (service, orders) = shop(KeySource::default(), syntax).await;
        for (value, accepted) in values() {
            let shown = format!("{} {syntax:?}", value.escape_ascii());
            let before = orders.count();
            let reply = send(&service, &value).await;
            if accepted[at] {
                assert_eq!(reply.status, 200, "{shown}");
                assert!(send(&service, &value).await.is_replay(), "{shown}");
            } else {
                let refusal = (400, "idempotency_key_malformed".to_owned());
                assert_eq!(reply.refusal(), refusal, "{shown}");
                assert_eq!(orders.count(), before, "{shown}");
            }
        }
        assert!(orders.count() > 0);
    }
}

#[tokio::test]
async fn two_lines_of_the_header_are_a_bad_request() {
    for syntax in SYNTAXES {
        let (service, orders) = shop(KeySource::default(), syntax).await;
        let quoted = format!("\"{UUID}\"");
        let request = post("/")
            .header("idempotency-key", &quoted)
            .header("idempotency-key", &quoted);
        let refusal = service.send(request, "").await.refusal();
        assert_eq!(
            refusal,
            (400, "idempotency_key_repeated".to_owned()),
            "{syntax:?}"
        );
        assert_eq!(orders.count(), 0);
    }
}

#[tokio::test]
async fn quotes_parameters_and_the_case_of_a_uuid_do_not_change_the_key() {
    let upper = UUID.to_uppercase();
    for (syntax, values) in [
        (KeySyntax::Lenient, ["abc", "\"abc\"", "\"abc\";v=1"]),
        (KeySyntax::Strict, ["\"abc\"", "\"abc\";v=1", "\"abc\"; w"]),
        (
            KeySyntax::Uuid,
            [UUID, &upper, "\"8E03978E-40d5-43e8-bc93-6894a57f9324\";v=1"],
        ),
    ] {
        let (service, orders) = shop(KeySource::default(), syntax).await;
        for value in values {
            assert_eq!(
                send(&service, value.as_bytes()).await.text(),
                "1",
                "{value}"
            );
        }
        assert_eq!(orders.count(), 1, "{syntax:?}");
    }
}

#[tokio::test]
async fn the_key_may_be_a_member_of_the_json_body() {
    let (service, orders) =
        shop(KeySource::json_field("meta.request_id"), KeySyntax::Lenient).await;
    let send = async |body: &str| {
        let request = post("/").header("content-type", "application/json");
        service.send(request, body).await
    };
    let first = r#"{"meta":{"request_id":"a"},"amount":1}"#;
    assert_eq!(send(first).await.text(), "1");
    assert!(send(first).await.is_replay());
    let other = send(r#"{"meta":{"request_id":"a"},"amount":2}"#).await;
    assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    let malformed = send(r#"{"meta":{"request_id":true}}"#).await;
    assert_eq!(
        malformed.refusal(),
        (400, "idempotency_key_malformed".to_owned())
    );
    let detail = malformed.problem()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail
            .contains("member meta.request_id of the JSON body is not a string or a whole number"),
        "{detail}"
    );
    assert_eq!(send(r#"{"amount":1}"#).await.text(), "2");
    assert_eq!(send(r#"{"amount":1}"#).await.text(), "3");
    assert_eq!(orders.count(), 3);
}

#[tokio::test]
async fn a_large_body_that_cannot_have_the_key_passes() {
    let (service, orders) = shop(KeySource::json_field("request_id"), KeySyntax::Lenient).await;
    let large = "a".repeat(2 * 1024 * 1024);
    for (essence, status) in [("application/octet-stream", 200), ("application/json", 413)] {
        let request = post("/").header("content-type", essence);
        let reply = service.send(request, &large).await;
        assert_eq!(reply.status, status, "{essence}");
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_request_without_a_key_is_told_why_it_has_none() {
    let member = || KeySource::json_field("request_id");
    let form = "application/x-www-form-urlencoded";
    let once = "once, with 1 to 255 printable ASCII characters.";
    let send = async |source: KeySource, essence: &str, lang: &str, body: &str| {
        let layer = scoped(&idempotency()).key_from(source).require_key();
        let app = Router::new().route("/", on_post(async || "placed"));
        let service = Service::start(app.layer(layer.build())).await;
        let request = post("/").header("content-type", essence);
        let request = request.header(
            "content-encoding",
            if body == "\u{1f}" { "gzip" } else { "identity" },
        );
        let refused = service
            .send(request.header("accept-language", lang), body)
            .await;
        let code = "idempotency_key_missing".to_owned();
        assert_eq!(refused.refusal(), (400, code), "{essence}");
        refused.problem()["detail"].as_str().unwrap().to_owned()
    };
    for (source, essence, body, why) in [
        (
            member().only_json_types(),
            form,
            "{\"request_id\":\"a\"}",
            "because the content type of the request is not JSON. ",
        ),
        (
            member(),
            "image/png",
            "{}",
            "because the content type of the request is not JSON. ",
        ),
        (
            member(),
            form,
            "request_id=a",
            "because the body is not JSON. ",
        ),
        (
            member(),
            "application/json",
            "\u{1f}",
            "because the body is compressed, and no layer outside has decompressed it. ",
        ),
    ] {
        let detail = send(source, essence, "en", body).await;
        let advice = format!("Send the member request_id of the JSON body {once}");
        assert_eq!(
            detail,
            format!("The member request_id of the JSON body cannot be found, {why}{advice}")
        );
    }
    let missing = send(member(), "application/json", "en", "{}").await;
    assert_eq!(
        missing,
        format!("Send the member request_id of the JSON body {once}")
    );
    let detail = send(member().only_json_types(), form, "zh", "request_id=a").await;
    assert!(detail.contains("请求的内容类型不是 JSON"), "{detail}");
    let field = || KeySource::form_field("request_id");
    let detail = send(field(), "multipart/form-data; boundary=a", "en", "").await;
    assert!(
        detail.contains("is not application/x-www-form-urlencoded"),
        "{detail}"
    );
    let detail = send(field(), form, "en", "amount=7").await;
    assert_eq!(
        detail,
        format!("Send the field request_id of the form {once}")
    );
    let detail = send(KeySource::query("requestId"), form, "en", "").await;
    assert_eq!(
        detail,
        format!("Send the parameter requestId of the query {once}")
    );
}
