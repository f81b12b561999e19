//! A form of HTML with the key in a hidden field, without a middleware of the user's own.

use actix_web::{HttpResponse, web};
use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION};
use idempotence::http::{KeySource, Payload};
use idempotent_runtime::Error;
use serde::Deserialize;

use crate::shop::serve;
use support::http_client::{Orders, idempotency, post, scoped};

#[derive(Deserialize)]
struct Order {
    product: String,
}

async fn place(order: web::Form<Order>, orders: web::Data<Orders>) -> Result<HttpResponse, Error> {
    if order.product == "refused" {
        let idempotency = idempotency();
        let call = || {
            let call = idempotency.call("stock").key(&7);
            call.ttl(std::time::Duration::from_mins(1))
                .run(async { Ok::<_, Error>(()) })
        };
        call().await?;
        call().await?;
    }
    let location = format!("/orders/{}", orders.place());
    Ok(HttpResponse::SeeOther()
        .insert_header(("location", location))
        .finish())
}

#[tokio::test]
async fn a_form_that_is_sent_twice_gets_one_redirect_and_a_person_gets_pages() {
    let layer = scoped(&idempotency())
        .key_from(KeySource::form_field("idempotency_key"))
        .payload(Payload::form())
        .require_key()
        .build();
    let orders = web::Data::new(Orders::default());
    let data = orders.clone();
    let service = serve(move |routes| {
        let resource = web::resource("/orders").wrap(layer.clone()).post(place);
        routes.app_data(data.clone()).service(resource);
    })
    .await;
    // Chrome 142 sends a form.
    let send = async |body: &str| {
        let request = post("/orders")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(
                ACCEPT,
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            )
            .header(ACCEPT_LANGUAGE, "zh-CN,zh;q=0.9");
        service.send(request, body).await
    };
    for body in [
        "product=tea&idempotency_key=a",
        "idempotency_key=a&product=tea",
    ] {
        let reply = send(body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.headers[LOCATION]),
            (303, &"/orders/1".parse().unwrap())
        );
    }
    for (body, status) in [
        ("product=milk&idempotency_key=a", 422),
        ("product=tea", 400),
        // The handler returns an `Err` of this crate.
        ("product=refused&idempotency_key=b", 409),
    ] {
        let refused = send(body).await;
        assert_eq!(refused.status, status);
        assert_eq!(refused.headers[CONTENT_TYPE], "text/html; charset=utf-8");
        assert!(
            refused.text().contains("<html lang=\"zh-Hans\">"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(orders.count(), 1);
}
