//! A storm of equal requests.

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use idempotence::testkit::{assert_ran_once, storm};
use tower::ServiceExt as _;

use support::http_client::{Orders, Reply, idempotency, keyed, scoped};

#[tokio::test]
async fn a_handler_runs_once_in_a_storm_of_equal_requests() {
    let (idempotency, orders) = (idempotency(), Orders::default());
    let placed = orders.clone();
    let place = move || async move { format!("order {}", placed.place()) };
    let layer = scoped(&idempotency).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    let report = storm(&idempotency, 20, |_| async {
        let request = keyed("/", "k-1").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        Reply::read(response).await
    });
    let report = report.await;
    assert_ran_once(&report);
    assert_eq!(orders.count(), 1);
    assert_eq!(report.replayed() + report.refused(), 19);
    let replays = report.results().iter().filter(|reply| reply.is_replay());
    assert_eq!(replays.count(), report.replayed());
}

#[tokio::test]
async fn requests_without_the_layer_fail_the_assertion() {
    let idempotency = idempotency();
    let app = Router::new().route("/", on_post(|| async { "placed" }));
    let report = storm(&idempotency, 20, |_| async {
        let request = keyed("/", "k-1").body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status()
    });
    assert_eq!(report.await.unguarded(), 20);
}
