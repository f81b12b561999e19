//! The task-locals of middlewares of actix, after a client has hung up.

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{Service as _, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpResponse, test, web};
use idempotence::http::{ContinueLayer, IdempotencyLayer};
use tokio::sync::{Semaphore, mpsc};

use support::http_client::{idempotency, within};

tokio::task_local! {
    static USER: &'static str;
}

async fn set_user(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    USER.scope("ada", next.call(request)).await
}

/// What the handler finds in `USER` after its request was dropped.
macro_rules! user_after_a_hang_up {
    (|$app:ident| $wrapped:expr) => {{
        let idempotency = idempotency();
        let guard = IdempotencyLayer::builder(&idempotency)
            .global_scope()
            .build();
        let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (users, mut seen) = mpsc::unbounded_channel();
        let handler = {
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            move || {
                let (begun, gate, users) = (Arc::clone(&begun), Arc::clone(&gate), users.clone());
                async move {
                    begun.add_permits(1);
                    gate.acquire().await.unwrap().forget();
                    users.send(USER.try_with(|user| *user).ok()).unwrap();
                    HttpResponse::Ok().finish()
                }
            }
        };
        let route = web::resource("/")
            .wrap(guard)
            .route(web::post().to(handler));
        let $app = App::new().service(route).wrap(from_fn(set_user));
        let app = test::init_service($wrapped).await;
        let request = test::TestRequest::post().uri("/");
        let request = request.insert_header(("idempotency-key", "a"));
        let mut response = Box::pin(app.call(request.to_request()));
        tokio::select! {
            _ = &mut response => panic!("the handler did not wait"),
            begun = within(begun.acquire()) => begun.unwrap().forget(),
        }
        drop(response);
        gate.add_permits(1);
        within(seen.recv()).await.unwrap()
    }};
}

#[actix_web::test]
async fn a_handler_keeps_the_task_locals_of_middlewares_after_a_hang_up() {
    let user = user_after_a_hang_up!(|app| app.wrap(ContinueLayer::new()));
    assert_eq!(user, Some("ada"));
}

#[actix_web::test]
async fn without_the_outer_layer_only_the_handler_continues() {
    let user = user_after_a_hang_up!(|app| app);
    assert_eq!(user, None);
}
