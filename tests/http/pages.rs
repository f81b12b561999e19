//! Forms of HTML with the key in a hidden field, and what a person gets.

use std::time::Duration;

use axum::response::Redirect;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION};
use http::request;
use idempotence::http::{Decision, HasScope, KeySource, LayerBuilder, Payload, Profile};
use idempotent_runtime::{Error, Idempotency};

use support::http_client::{Orders, Reply, Service, idempotency, post, scoped};

/// Places orders of a form. `held` is an order whose outcome is not known, and `refused` one whose work another call has done.
async fn shop(layer: LayerBuilder<impl HasScope>) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |form: String| async move {
        let decision = if form.contains("product=held") {
            Decision::Hold
        } else {
            Decision::Store
        };
        (
            Extension(decision),
            Redirect::to(&format!("/orders/{}", placed.place())),
        )
    };
    let app = Router::new()
        .route("/orders", on_post(place))
        .route(
            "/transfers",
            on_post(async || transfer(&idempotency()).await),
        )
        .route_layer(layer.build());
    (Service::start(app).await, orders)
}

/// Always refused: the key has its work already.
async fn transfer(idempotency: &Idempotency) -> Result<&'static str, Error> {
    let call = || {
        let call = idempotency.call("transfer").key(&7);
        call.ttl(Duration::from_mins(1))
            .run(async { Ok::<_, Error>("moved") })
    };
    call().await.ok();
    call().await
}

fn form_layer() -> LayerBuilder<impl HasScope> {
    scoped(&idempotency())
        .key_from(KeySource::form_field("idempotency_key"))
        .payload(Payload::form())
        .require_key()
}

/// Firefox 145 sends a form.
fn firefox(path: &str) -> request::Builder {
    post(path)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(
            ACCEPT,
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        )
        .header(ACCEPT_LANGUAGE, "en-US,en;q=0.5")
}

/// The text of a page in this language.
fn text(reply: &Reply, lang: &str) -> String {
    assert_eq!(reply.headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(reply.headers["content-language"], lang);
    let page = reply.text();
    assert!(
        page.starts_with(&format!("<!DOCTYPE html>\n<html lang=\"{lang}\">")),
        "{page}"
    );
    let (_, rest) = page.split_once("<p>").unwrap();
    rest.split_once("</p>").unwrap().0.to_owned()
}

#[tokio::test]
async fn a_form_that_is_sent_twice_gets_one_redirect() {
    let (service, orders) = shop(form_layer()).await;
    for body in [
        "product=tea&idempotency_key=a",
        "idempotency_key=a&product=tea",
    ] {
        let reply = service.send(firefox("/orders"), body).await;
        assert_eq!(reply.status, 303);
        assert_eq!(reply.headers[LOCATION], "/orders/1");
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_person_gets_a_refusal_as_a_page_in_their_language() {
    let (service, _) = shop(form_layer()).await;
    let send = async |request: request::Builder, body: &str| service.send(request, body).await;
    let chinese = || {
        let mut request = firefox("/orders");
        let headers = request.headers_mut().unwrap();
        headers.insert(ACCEPT_LANGUAGE, "zh-CN,zh;q=0.8".parse().unwrap());
        request
    };
    send(firefox("/orders"), "product=tea&idempotency_key=a").await;
    let other = "product=milk&idempotency_key=a";
    let refused = send(firefox("/orders"), other).await;
    assert_eq!(refused.status, 422);
    assert!(text(&refused, "en").len() > 20);
    let refused = send(chinese(), other).await;
    assert!(!text(&refused, "zh-Hans").is_ascii());
    send(firefox("/orders"), "product=held&idempotency_key=b").await;
    let refused = send(chinese(), "product=held&idempotency_key=b").await;
    assert_eq!(
        (
            refused.status.as_u16(),
            text(&refused, "zh-Hans").is_ascii()
        ),
        (409, false)
    );
    let missing = send(firefox("/orders"), "product=tea").await;
    assert_eq!(
        (missing.status.as_u16(), text(&missing, "en")),
        (400, "Send the field idempotency_key of the form once, with 1 to 255 printable ASCII characters.".to_owned())
    );
}

#[tokio::test]
async fn a_script_gets_json_from_the_same_route() {
    let (service, _) = shop(form_layer()).await;
    for accept in ["*/*", "application/json, text/html"] {
        let request = post("/orders")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, accept);
        let refused = service.send(request, "product=tea").await;
        assert_eq!(
            refused.refusal(),
            (400, "idempotency_key_missing".to_owned())
        );
    }
}

#[tokio::test]
async fn a_refusal_of_an_inner_call_is_a_page_in_the_language_of_the_reader() {
    for profile in [Profile::Ietf, Profile::Stripe] {
        let (service, _) = shop(form_layer().optional_key().profile(profile)).await;
        for body in ["idempotency_key=a", ""] {
            let mut request = firefox("/transfers");
            let headers = request.headers_mut().unwrap();
            headers.insert(ACCEPT_LANGUAGE, "zh".parse().unwrap());
            let refused = service.send(request, body).await;
            assert_eq!(refused.status, 409);
            assert!(!text(&refused, "zh-Hans").is_ascii());
        }
    }
}

#[tokio::test]
async fn the_program_may_replace_the_page() {
    let layer = form_layer().on_reject(|rejection, response| {
        let code = rejection.code();
        response.map(|_| format!("<p>{code}</p>").into())
    });
    let (service, _) = shop(layer).await;
    let refused = service.send(firefox("/orders"), "product=tea").await;
    assert_eq!(refused.text(), "<p>idempotency_key_missing</p>");
    assert_eq!(refused.headers[CONTENT_TYPE], "text/html; charset=utf-8");
}
