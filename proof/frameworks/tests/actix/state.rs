//! Functions with the attribute that take their handle from the data of an application.

use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::{App, test, web};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::post;
use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use tower::ServiceExt as _;

static RUNS: AtomicU64 = AtomicU64::new(0);

#[idempotent(key = (*order), ttl = "1h", replay = true, using = handle)]
async fn pay_in_actix(
    handle: web::Data<Idempotency>,
    order: web::Path<u64>,
) -> Result<String, Error> {
    Ok(format!("run {}", RUNS.fetch_add(1, Ordering::Relaxed)))
}

#[idempotent(key = "order", ttl = "1h", replay = true, using = handle)]
async fn pay_in_axum(handle: State<Idempotency>, Path(order): Path<u64>) -> Result<String, Error> {
    Ok(format!("run {}", RUNS.fetch_add(1, Ordering::Relaxed)))
}

/// As the tests of a service do: each builds the whole application.
#[actix_web::test]
async fn each_application_has_the_keys_of_its_own_handle() {
    let mut answers = Vec::new();
    for _ in 0..25 {
        let handle = web::Data::new(Idempotency::new(MemoryStore::new()));
        let app = App::new().app_data(handle);
        let app = app.route("/{order}/pay", web::post().to(pay_in_actix));
        let app = test::init_service(app).await;
        let pay = || test::TestRequest::post().uri("/7/pay").to_request();
        let first = test::call_and_read_body(&app, pay()).await;
        assert_eq!(test::call_and_read_body(&app, pay()).await, first);
        answers.push(first);

        let app: Router = Router::new()
            .route("/{order}/pay", post(pay_in_axum))
            .with_state(Idempotency::new(MemoryStore::new()));
        let pay = async || {
            let request = axum::http::Request::post("/7/pay").body(Body::empty());
            let response = app.clone().oneshot(request.unwrap()).await.unwrap();
            let body = axum::body::to_bytes(response.into_body(), 100).await;
            body.unwrap()
        };
        let first = pay().await;
        assert_eq!(pay().await, first);
        answers.push(first);
    }
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(
        answers.len(),
        50,
        "an application got a result of another one"
    );
}
