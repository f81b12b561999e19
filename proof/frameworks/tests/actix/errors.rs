//! Errors of middlewares between the layer and the handler, and drops outside of actix.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Service as _, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorInternalServerError, InternalError};
use actix_web::http::StatusCode;
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpResponse, test, web};
use futures_util::FutureExt as _;
use idempotence::http::{Decision, IdempotencyLayer};

use crate::shop::serve;
use support::http_client::{Orders, Service, idempotency, keyed, layer};

/// Fails as the path says.
async fn fail<B: MessageBody>(
    request: ServiceRequest,
    _: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let number = request.app_data::<web::Data<Orders>>().unwrap().place();
    let text = format!("failure {number}");
    Err(match request.match_info().get("kind").unwrap() {
        "stream" => {
            let chunk = futures_util::stream::once(async { Ok::<_, Error>(text.into()) });
            let response = HttpResponse::Conflict().streaming(chunk);
            InternalError::from_response("a stream", response).into()
        }
        "released" => {
            let mut response = HttpResponse::InternalServerError().body(text);
            response.extensions_mut().insert(Decision::Release);
            InternalError::from_response("released", response).into()
        }
        "once" => {
            let response = HttpResponse::Conflict().body(text);
            InternalError::from_response("once", response).into()
        }
        // Its status is stored, but it is true only at this moment.
        "refused" => {
            let idempotency = idempotency();
            let call = || {
                let call = idempotency.call("inner").key(&7);
                call.ttl(Duration::from_mins(1))
                    .run(async { Ok::<_, idempotent_runtime::Error>(()) })
            };
            call().await.unwrap();
            call().await.unwrap_err().into()
        }
        status => {
            let status = StatusCode::from_u16(status.parse().unwrap()).unwrap();
            InternalError::new(text, status).into()
        }
    })
}

/// A server with a middleware that fails inside of the layer, and another that shows errors outside.
async fn failing(layer: IdempotencyLayer) -> Service {
    let data = web::Data::new(Orders::default());
    serve(move |routes| {
        let resource = web::resource("/fail/{kind}")
            .wrap(from_fn(fail))
            .wrap(layer.clone())
            .wrap_fn(|request, service| {
                service.call(request).map(|response| {
                    response.map_err(|mut error| {
                        let text = error.to_string();
                        error.add_response_mapper(move |mut response| {
                            let name = actix_web::http::header::HeaderName::from_static("x-error");
                            let text = text.parse().unwrap();
                            response.headers_mut().insert(name, text);
                            response
                        });
                        error
                    })
                })
            });
        routes
            .app_data(data.clone())
            .service(resource.to(|| async { "the handler" }));
    })
    .await
}

#[tokio::test]
async fn an_err_of_an_inner_middleware_is_treated_as_its_response() {
    let service = failing(layer()).await;
    for (kind, status, expected) in [
        ("401", 401, Ok(false)),
        ("429", 429, Ok(false)),
        ("released", 500, Ok(false)),
        ("503", 503, Ok(false)),
        ("refused", 409, Ok(false)),
        ("404", 404, Ok(true)),
        ("once", 409, Ok(true)),
        ("500", 500, Err("outcome_unknown")),
        ("408", 408, Err("outcome_unknown")),
        ("504", 504, Err("outcome_unknown")),
        ("stream", 409, Err("outcome_unknown")),
    ] {
        let path = format!("/fail/{kind}");
        let first = service.send(keyed(&path, kind), "").await;
        assert_eq!(first.status.as_u16(), status, "{kind}");
        assert!(first.headers.contains_key("x-error"), "{kind}");
        let again = service.send(keyed(&path, kind), "").await;
        match expected {
            Ok(is_replay) => {
                let seen = (again.status.as_u16(), again.is_replay());
                assert_eq!(seen, (status, is_replay), "{kind}");
                if kind != "refused" {
                    assert_eq!(again.body == first.body, is_replay, "{kind}");
                }
            }
            Err(code) => assert_eq!(again.refusal(), (409, code.to_owned()), "{kind}"),
        }
    }
}

/// Fails after the handler.
async fn audit(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    next.call(request).await?;
    Err(ErrorInternalServerError("the audit log is down"))
}

#[tokio::test]
async fn an_err_with_500_after_the_handler_does_not_run_it_again() {
    let orders = Orders::default();
    let begun = orders.clone();
    let place = move || {
        begun.place();
        async { "placed" }
    };
    let resource = web::resource("/orders")
        .wrap(from_fn(audit))
        .wrap(layer())
        .to(place);
    let app = test::init_service(App::new().service(resource)).await;
    for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::CONFLICT] {
        let request = test::TestRequest::post().uri("/orders");
        let request = request.insert_header(("idempotency-key", "a"));
        let request = request.insert_header(("authorization", "ada")).to_request();
        let answered = match app.call(request).await {
            Ok(response) => response.status(),
            Err(error) => error.error_response().status(),
        };
        assert_eq!((answered, orders.count()), (status, 1));
    }
}

/// Tests of users call a service of actix in a runtime that is not of actix.
#[tokio::test]
async fn a_request_that_is_dropped_outside_of_actix_keeps_its_key_and_does_not_panic() {
    let orders = Orders::default();
    let begun = orders.clone();
    let place = move || {
        begun.place();
        std::future::pending::<HttpResponse>()
    };
    let resource = web::resource("/orders").wrap(layer()).to(place);
    let app = test::init_service(App::new().service(resource)).await;
    let request = || {
        let request = test::TestRequest::post().uri("/orders");
        let request = request.insert_header(("idempotency-key", "a"));
        app.call(request.insert_header(("authorization", "ada")).to_request())
    };
    {
        let mut dropped = Box::pin(request());
        let polled = dropped
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        assert_eq!(orders.count(), 1);
    }
    let again = request().await.unwrap();
    assert_eq!((again.status(), orders.count()), (StatusCode::CONFLICT, 1));
}
