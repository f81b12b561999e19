//! Clients that hang up, and servers that stop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post as on_post;
use idempotent_runtime::Idempotency;
use tokio::sync::Semaphore;

use support::http_client::{MAX_WAIT, Orders, Service, idempotency, keyed, post, scoped, within};

pub(crate) struct Shop {
    pub(crate) service: Service,
    idempotency: Idempotency,
    /// Handlers that have begun.
    pub(crate) begun: Orders,
    pub(crate) charges: Orders,
    /// Lets a handler continue.
    pub(crate) gate: Arc<Semaphore>,
    /// Has a permit for each request that reached the layer.
    pub(crate) arrived: Arc<Semaphore>,
    /// Has a permit for each request whose future was dropped before it was ready.
    pub(crate) dropped: Arc<Semaphore>,
}

/// Adds a permit if it is dropped before its request has a response.
struct Unanswered {
    dropped: Arc<Semaphore>,
    has_response: bool,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.has_response {
            self.dropped.add_permits(1);
        }
    }
}

/// A shop whose handler charges after it has waited.
pub(crate) async fn shop() -> Shop {
    let idempotency = idempotency();
    let (begun, charges, gate) = (
        Orders::default(),
        Orders::default(),
        Arc::new(Semaphore::new(0)),
    );
    let place = {
        let (begun, charges, gate) = (begun.clone(), charges.clone(), Arc::clone(&gate));
        move || async move {
            begun.place();
            gate.acquire().await.unwrap().forget();
            format!("charge {}", charges.place())
        }
    };
    let layer = scoped(&idempotency).wait(MAX_WAIT).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    let dropped = Arc::new(Semaphore::new(0));
    let arrived = Arc::new(Semaphore::new(0));
    let (drops, arrivals) = (Arc::clone(&dropped), Arc::clone(&arrived));
    let watch = move |request: Request, next: Next| {
        let dropped = Arc::clone(&drops);
        arrivals.add_permits(1);
        async move {
            // It is dropped after the future of the inner service.
            let mut unanswered = Unanswered {
                dropped,
                has_response: false,
            };
            let response = next.run(request).await;
            unanswered.has_response = true;
            response
        }
    };
    Shop {
        service: Service::start(app.layer(from_fn(watch))).await,
        idempotency,
        begun,
        charges,
        gate,
        arrived,
        dropped,
    }
}

impl Shop {
    /// Sends a request, and hangs up when its handler has begun. Returns after the server has dropped the request.
    async fn hang_up(&self, request: http::request::Builder) {
        let request = request.body(Body::empty()).unwrap();
        let (response, connection) = self.service.connect(request).await;
        let response = tokio::spawn(response);
        within(async {
            while self.begun.count() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        connection.abort();
        assert!(within(response).await.unwrap().is_err());
        within(self.dropped.acquire()).await.unwrap().forget();
    }
}

#[tokio::test]
async fn a_handler_without_a_key_ends_with_its_client() {
    let shop = shop().await;
    shop.hang_up(post("/")).await;
    // Nothing takes the permit, because the handler was dropped.
    shop.gate.add_permits(1);
    within(shop.service.stop()).await;
    assert_eq!(shop.gate.available_permits(), 1);
    assert_eq!((shop.begun.count(), shop.charges.count()), (1, 0));
}

#[tokio::test]
async fn a_client_that_hangs_up_and_tries_again_is_charged_once() {
    let shop = shop().await;
    shop.hang_up(keyed("/", "a")).await;
    assert_eq!(shop.charges.count(), 0);
    shop.gate.add_permits(1);
    let replay = within(shop.service.send(keyed("/", "a"), "")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("charge 1", true));
    assert_eq!((shop.begun.count(), shop.charges.count()), (1, 1));
}

#[tokio::test]
async fn drain_waits_for_handlers_whose_clients_have_hung_up() {
    let shop = shop().await;
    shop.hang_up(keyed("/", "a")).await;
    let Shop {
        service,
        idempotency,
        charges,
        gate,
        ..
    } = shop;
    within(service.stop()).await;
    let busy = idempotency.drain(Duration::from_millis(50)).await;
    assert_eq!(busy.unwrap_err().remaining(), 1);
    gate.add_permits(1);
    let drained = idempotency.drain(MAX_WAIT).await;
    assert_eq!((drained, charges.count()), (Ok(()), 1));
}

#[tokio::test]
async fn a_graceful_shutdown_finishes_the_open_requests() {
    let shop = Arc::new(shop().await);
    let request = keyed("/", "a").body(Body::empty()).unwrap();
    let (response, _) = shop.service.connect(request).await;
    let response = tokio::spawn(response);
    within(async {
        while shop.begun.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let shop = Arc::into_inner(shop).expect("the only one");
    let stopped = tokio::spawn(shop.service.stop());
    shop.gate.add_permits(1);
    let response = within(response).await.unwrap().expect("a response");
    assert_eq!(
        support::http_client::Reply::read(response).await.text(),
        "charge 1"
    );
    within(stopped).await.unwrap();
    let drained = shop.idempotency.drain(MAX_WAIT).await;
    assert_eq!((drained, shop.charges.count()), (Ok(()), 1));
}
