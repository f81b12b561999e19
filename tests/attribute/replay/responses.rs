//! Responses of axum: the status and the headers are stored beside the body.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use idempotence::{Error, Once, idempotent};

use crate::replay::{Done, REPLAYED, ends, fresh};

/// The headers of the first response.
fn headers(id: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let location = HeaderValue::try_from(format!("/orders/{id}")).unwrap();
    headers.insert(header::LOCATION, location);
    headers.append(header::LINK, HeaderValue::from_static("</a>; rel=\"next\""));
    headers.append(header::LINK, HeaderValue::from_static("</b>; rel=\"prev\""));
    headers
}

/// Awaits two equal calls, of which one body runs, and returns both responses.
macro_rules! both {
    ($call:expr) => {{
        let mut both = Vec::new();
        let calls = async {
            for _ in 0..2 {
                both.push($call.await.unwrap());
            }
        };
        assert_eq!(ends(calls).await, REPLAYED);
        let [first, second] = <[_; 2]>::try_from(both).ok().unwrap();
        (first, second)
    }};
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn created(id: u64) -> Done<(StatusCode, HeaderMap, Json<u64>)> {
    Ok((StatusCode::CREATED, headers(id), Json(id)))
}

#[tokio::test]
async fn a_duplicate_gets_the_status_the_headers_and_the_body() {
    let (first, second) = both!(created(7));
    for (status, map, Json(id)) in [first, second] {
        assert_eq!((status, map, id), (StatusCode::CREATED, headers(7), 7));
    }
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn accepted(id: u64) -> Done<(StatusCode, Json<Vec<u64>>)> {
    Ok((StatusCode::ACCEPTED, Json(vec![id])))
}

#[tokio::test]
async fn a_duplicate_gets_a_status_and_a_body() {
    let (first, second) = both!(accepted(7));
    for (status, Json(ids)) in [first, second] {
        assert_eq!((status, ids), (StatusCode::ACCEPTED, vec![7]));
    }
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn located(id: u64) -> Done<(HeaderMap, Json<()>)> {
    Ok((headers(id), Json(())))
}

#[tokio::test]
async fn a_duplicate_gets_headers_and_a_body() {
    let (first, second) = both!(located(7));
    for (map, Json(())) in [first, second] {
        assert_eq!(map, headers(7));
    }
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn removed(id: u64) -> Done<(StatusCode, HeaderMap)> {
    Ok((StatusCode::NO_CONTENT, headers(id)))
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn status_only(id: u64) -> Done<StatusCode> {
    let _ = id;
    Ok(StatusCode::NO_CONTENT)
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn headers_only(id: u64) -> Done<HeaderMap> {
    Ok(headers(id))
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn in_text(id: u64) -> Done<(StatusCode, HeaderMap, String)> {
    Ok((StatusCode::CREATED, headers(id), format!("order {id}")))
}

#[tokio::test]
async fn a_response_without_json_is_replayed() {
    let (first, second) = both!(removed(7));
    assert_eq!(first, second);
    assert_eq!(second, (StatusCode::NO_CONTENT, headers(7)));
    let (first, second) = both!(status_only(7));
    assert_eq!([first, second], [StatusCode::NO_CONTENT; 2]);
    let (first, second) = both!(headers_only(7));
    assert_eq!([first, second], [headers(7), headers(7)]);
    let (first, second) = both!(in_text(7));
    assert_eq!(first, second);
    assert_eq!(
        second,
        (StatusCode::CREATED, headers(7), "order 7".to_owned())
    );
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn once(id: u64) -> Done<Once<(StatusCode, HeaderMap, Json<u64>)>> {
    Ok(Once::Executed((StatusCode::CREATED, headers(id), Json(id))))
}

#[tokio::test]
async fn a_once_around_a_response_says_which_one_is_replayed() {
    let (first, second) = both!(once(7));
    let [first, second] = [first, second].map(IntoResponse::into_response);
    for response in [&first, &second] {
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(response.headers()[header::LOCATION], "/orders/7");
        assert_eq!(response.headers().get_all(header::LINK).iter().count(), 2);
    }
    assert_eq!(first.headers().get("idempotency-replayed"), None);
    assert_eq!(second.headers()["idempotency-replayed"], "true");
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn once_inside(id: u64) -> Done<(StatusCode, Once<Json<u64>>)> {
    Ok((StatusCode::CREATED, Once::Executed(Json(id))))
}

#[tokio::test]
async fn a_once_after_a_status_says_which_one_is_replayed() {
    let (first, second) = both!(once_inside(7));
    let [first, second] = [first, second].map(IntoResponse::into_response);
    assert_eq!([first.status(), second.status()], [StatusCode::CREATED; 2]);
    assert_eq!(first.headers().get("idempotency-replayed"), None);
    assert_eq!(second.headers()["idempotency-replayed"], "true");
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn once_of_a_number(id: u64) -> Done<Once<u64>> {
    Ok(Once::Executed(id))
}

#[tokio::test]
async fn a_response_that_is_made_of_a_once_says_which_one_is_replayed() {
    let response = |once: Once<u64>| (StatusCode::CREATED, once.map(Json)).into_response();
    let (first, second) = both!(once_of_a_number(7));
    let [first, second] = [first, second].map(response);
    assert_eq!(first.headers().get("idempotency-replayed"), None);
    assert_eq!(second.headers()["idempotency-replayed"], "true");
}

const HOP: HeaderName = HeaderName::from_static("x-hop");

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn with_a_session(id: u64) -> Done<(HeaderMap, Json<u64>)> {
    let mut headers = headers(id);
    for (name, value) in [
        (header::SET_COOKIE, "session=1"),
        (header::DATE, "Tue, 15 Nov 1994 08:12:31 GMT"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "https://shop.example"),
        (header::CONNECTION, "x-hop"),
        (HOP, "1"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok((headers, Json(id)))
}

#[tokio::test]
async fn a_session_a_date_and_what_connection_names_are_not_replayed() {
    let ((first, _), (second, _)) = both!(with_a_session(7));
    assert_eq!(first[header::SET_COOKIE], "session=1");
    assert_eq!(first[HOP], "1");
    assert_eq!(second, headers(7));
}

#[idempotent(key = "value", ttl = "1m", replay = true)]
async fn echoed(value: &str) -> Done<(StatusCode, HeaderMap)> {
    let bytes: Vec<u8> = value
        .chars()
        .map(|char| u8::try_from(char).unwrap())
        .collect();
    let value = HeaderValue::from_bytes(&bytes).unwrap();
    Ok((StatusCode::OK, HeaderMap::from_iter([(HOP, value)])))
}

#[tokio::test]
async fn a_value_of_any_bytes_is_replayed() {
    // All bytes that a value may have: a tab, and 0x20 to 0xff without 0x7f.
    let all: String = (0x20..=0xff)
        .filter(|byte| *byte != 0x7f)
        .map(char::from)
        .collect();
    for value in ["", "\t", "größe", "\u{80}\u{ff}", &all] {
        let (first, second) = both!(echoed(value));
        assert_eq!(first, second, "{value:?}");
    }
}

#[tokio::test]
async fn a_body_that_was_stored_without_a_status_is_not_replayed_with_one() {
    #[idempotent(name = "orders.add", key = "id", ttl = "1m", replay = true)]
    async fn before(id: u64) -> Done<Json<u64>> {
        Ok(Json(id))
    }

    #[idempotent(name = "orders.add", key = "id", ttl = "1m", replay = true)]
    async fn after(id: u64) -> Done<(StatusCode, Json<u64>)> {
        Ok((StatusCode::CREATED, Json(id)))
    }

    fresh(async {
        let Json(id) = before(7).await.unwrap();
        assert_eq!(id, 7);
        let error: Error = after(7).await.unwrap_err();
        assert_eq!(error.code(), "result_unavailable");
    })
    .await;
}
