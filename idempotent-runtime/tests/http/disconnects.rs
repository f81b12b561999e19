//! Clients that hang up, and servers that stop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use idempotent_runtime::Idempotency;
use tokio::sync::Semaphore;

use crate::client::{Orders, Service, idempotency, keyed, scoped, within};

struct Shop {
    service: Service,
    idempotency: Idempotency,
    /// Handlers that have begun.
    begun: Orders,
    charges: Orders,
    /// Lets a handler continue.
    gate: Arc<Semaphore>,
}

/// A shop whose handler charges after it has waited.
async fn shop() -> Shop {
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
    let layer = scoped(&idempotency).wait(Duration::from_secs(10)).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    Shop {
        service: Service::start(app).await,
        idempotency,
        begun,
        charges,
        gate,
    }
}

impl Shop {
    /// Sends a request, and hangs up when its handler has begun.
    async fn hang_up(&self, key: &str) {
        let request = keyed("/", key).body(Body::empty()).unwrap();
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
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_and_tries_again_is_charged_once() {
    let shop = shop().await;
    shop.hang_up("a").await;
    // The server sees the end of the connection when it polls it next. Either way the second request gets the first response.
    shop.gate.add_permits(1);
    let replay = within(shop.service.send(keyed("/", "a"), "")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("charge 1", true));
    assert_eq!((shop.begun.count(), shop.charges.count()), (1, 1));
}

#[tokio::test]
async fn drain_waits_for_handlers_whose_clients_have_hung_up() {
    let shop = shop().await;
    shop.hang_up("a").await;
    let Shop {
        service,
        idempotency,
        charges,
        gate,
        ..
    } = shop;
    // With the connection also its handler ends, or continues in its own task.
    within(service.stop()).await;
    let busy = idempotency.drain(Duration::from_millis(50)).await;
    assert_eq!(busy.unwrap_err().remaining(), 1);
    gate.add_permits(1);
    let drained = idempotency.drain(Duration::from_secs(10)).await;
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
        crate::client::Reply::read(response).await.text(),
        "charge 1"
    );
    within(stopped).await.unwrap();
    let drained = shop.idempotency.drain(Duration::from_secs(10)).await;
    assert_eq!((drained, shop.charges.count()), (Ok(()), 1));
}
