//! The task-locals of middlewares, after a client has hung up.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post as on_post;
use idempotence::http::{ContinueLayer, IdempotencyLayer};
use idempotent_runtime::Idempotency;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt as _;

use support::http_client::{idempotency, keyed, within};

tokio::task_local! {
    static USER: &'static str;
}

/// What a handler and the middleware outside of it did after the client had hung up.
struct HungUp {
    user: Option<&'static str>,
    is_drained: bool,
    /// The code of the middleware after the handler ran.
    middleware_ended: bool,
}

/// A middleware sets `USER`, the client hangs up while the handler runs, then the handler reads `USER`.
async fn hang_up(wrap: impl FnOnce(Router) -> Router) -> HungUp {
    let idempotency = idempotency();
    let guard = IdempotencyLayer::builder(&idempotency)
        .global_scope()
        .build();
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (users, mut seen) = mpsc::unbounded_channel();
    let (ends, mut ended) = mpsc::unbounded_channel();
    let handler = {
        let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
        move || async move {
            begun.add_permits(1);
            gate.acquire().await.unwrap().forget();
            users.send(USER.try_with(|user| *user).ok()).unwrap();
        }
    };
    let set_user = from_fn(move |request: Request, next: Next| {
        let ends = ends.clone();
        async move {
            let response = USER.scope("ada", next.run(request)).await;
            ends.send(()).unwrap();
            response
        }
    });
    let app = Router::new().route("/", on_post(handler));
    let app = wrap(app.route_layer(guard).layer(set_user));
    let request = keyed("/", "a").body(Body::empty()).unwrap();
    let mut response = Box::pin(app.oneshot(request));
    tokio::select! {
        _ = &mut response => panic!("the handler did not wait"),
        begun = within(begun.acquire()) => begun.unwrap().forget(),
    }
    drop(response);
    let is_drained = idempotency.drain(Duration::ZERO).await.is_ok();
    gate.add_permits(1);
    let user = within(seen.recv()).await.unwrap();
    drain(&idempotency).await;
    HungUp {
        user,
        is_drained,
        middleware_ended: ended.try_recv().is_ok(),
    }
}

async fn drain(idempotency: &Idempotency) {
    idempotency.drain(Duration::from_mins(1)).await.unwrap();
}

#[tokio::test]
async fn a_handler_keeps_the_task_locals_of_middlewares_after_a_hang_up() {
    let hung_up = hang_up(|app| app.layer(ContinueLayer::new())).await;
    assert_eq!(hung_up.user, Some("ada"));
    assert!(hung_up.middleware_ended);
    assert!(!hung_up.is_drained, "`drain` did not wait for the request");
}

#[tokio::test]
async fn without_the_outer_layer_only_the_handler_continues() {
    let hung_up = hang_up(|app| app).await;
    assert_eq!(hung_up.user, None);
    assert!(!hung_up.middleware_ended);
    assert!(!hung_up.is_drained);
}

/// The outer layer continues a request only while a guarded handler runs.
#[tokio::test]
async fn a_request_without_a_key_ends_with_its_client() {
    let idempotency = idempotency();
    let guard = IdempotencyLayer::builder(&idempotency)
        .global_scope()
        .build();
    let (begun, dropped) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
        move || async move {
            let _ended = AddPermit(dropped);
            begun.add_permits(1);
            std::future::pending::<()>().await;
        }
    };
    let app: Router = Router::new().route("/", on_post(handler));
    let app = app.route_layer(guard).layer(ContinueLayer::new());
    let request = Request::post("/").body(Body::empty()).unwrap();
    let mut response = Box::pin(app.oneshot(request));
    tokio::select! {
        _ = &mut response => panic!("the handler did not wait"),
        begun = within(begun.acquire()) => begun.unwrap().forget(),
    }
    drop(response);
    assert_eq!(dropped.available_permits(), 1);
}

struct AddPermit(Arc<Semaphore>);

impl Drop for AddPermit {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}
