//! A shop whose orders are counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::routing::{get, post};

/// How long an order takes: long enough for a client to hang up meanwhile.
const WORK: Duration = Duration::from_millis(150);

#[derive(Clone, Default)]
pub(crate) struct Shop {
    orders: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
}

impl Shop {
    /// Places an order, or fails if its body says so.
    pub(crate) async fn order(&self, body: &[u8]) -> Response<Body> {
        tokio::time::sleep(WORK).await;
        if body.windows(4).any(|part| part == b"fail") {
            let failure = self.failures.fetch_add(1, Ordering::SeqCst);
            let text = format!("{{\"failure\":{failure}}}");
            return Response::builder().status(503).body(text.into()).unwrap();
        }
        let order = self.orders.fetch_add(1, Ordering::SeqCst) + 1;
        Response::builder()
            .status(201)
            .header("content-type", "application/json")
            .header("location", format!("/orders/{order}"))
            .header("set-cookie", format!("session={order}"))
            .body(format!("{{\"order\":{order}}}").into())
            .unwrap()
    }

    /// Where the orders are counted.
    pub(crate) fn count(&self) -> String {
        format!("{{\"count\":{}}}", self.orders.load(Ordering::SeqCst))
    }
}

/// Serves until the test program ends.
pub(crate) fn serve(routes: Router, shop: &Shop) -> SocketAddr {
    let shop = shop.clone();
    let routes = routes.route("/count", get(async move || shop.count()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, routes).await.unwrap();
        });
    });
    address
}

/// A shop that answers only so many requests.
pub(crate) fn limited(requests: u64) -> SocketAddr {
    let shop = Shop::default();
    let order = {
        let shop = shop.clone();
        async move |body: Bytes| {
            let order = shop.order(&body).await;
            if shop.orders.load(Ordering::SeqCst) <= requests {
                return order;
            }
            Response::builder().status(429).body(Body::empty()).unwrap()
        }
    };
    serve(Router::new().route("/orders", post(order)), &shop)
}
