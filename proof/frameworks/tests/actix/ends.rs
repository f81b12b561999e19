//! How a handler ends, and what its key does then.

use std::time::Duration;

use axum::body::Body;
use idempotent_runtime::Idempotency;

use crate::shop::{BOTH, Server, Shop};
use support::http_client::{MAX_WAIT, idempotency, keyed, layer, post, scoped, within};

#[tokio::test]
async fn the_status_decides_unless_the_handler_does() {
    // The status, the decision of the handler, and the status of the repetition. Its handler runs again if it is a number.
    let cases = [
        (200, None, Ok(true)),
        (303, None, Ok(true)),
        (404, None, Ok(true)),
        (422, None, Ok(false)),
        (500, None, Ok(false)),
        (503, None, Ok(false)),
        (504, None, Err("outcome_unknown")),
        (200, Some("release"), Ok(false)),
        (200, Some("hold"), Err("outcome_unknown")),
        (500, Some("store"), Ok(true)),
    ];
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        for (number, (status, decision, expected)) in cases.into_iter().enumerate() {
            let path = format!("/status/{status}");
            let request = || {
                let request = keyed(&path, &number.to_string());
                request.header("x-decision", decision.unwrap_or("none"))
            };
            let first = shop.service.send(request(), "").await;
            assert_eq!(first.status, status);
            let again = shop.service.send(request(), "").await;
            match expected {
                Ok(is_replay) => {
                    let seen = (again.status.as_u16(), again.is_replay());
                    assert_eq!(seen, (status, is_replay), "{server:?} {number}");
                }
                Err(code) => assert_eq!(again.refusal(), (409, code.to_owned())),
            }
        }
    }
}

#[tokio::test]
async fn after_a_panic_the_outcome_is_unknown() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let request = keyed("/panic", "a").body(Body::empty()).unwrap();
        let (response, _) = shop.service.connect(request).await;
        assert!(within(response).await.is_err());
        let again = shop.service.send(keyed("/panic", "a"), "").await;
        let unknown = (409, "outcome_unknown".to_owned());
        assert_eq!((again.refusal(), shop.runs()), (unknown, 1), "{server:?}");
        // The worker goes on.
        let other = shop.service.send(keyed("/orders", "a"), "").await;
        assert_eq!(other.status, 201);
    }
}

/// Sends a request, and hangs up when its handler has begun. Returns after the server has dropped the request.
async fn hang_up(shop: &Shop, request: http::request::Builder) {
    let request = request.body(Body::empty()).unwrap();
    let (response, connection) = shop.service.connect(request).await;
    let response = tokio::spawn(response);
    within(async {
        while shop.runs() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    connection.abort();
    assert!(within(response).await.unwrap().is_err());
    within(shop.state.dropped.acquire()).await.unwrap().forget();
}

fn waiting(idempotency: &Idempotency) -> idempotence::http::IdempotencyLayer {
    scoped(idempotency).wait(MAX_WAIT).build()
}

#[tokio::test]
async fn a_handler_without_a_key_ends_with_its_client() {
    for server in BOTH {
        let shop = Shop::start(server, &waiting(&idempotency())).await;
        hang_up(&shop, post("/gate")).await;
        // Nothing takes the permit, because the handler was dropped.
        shop.state.gate.add_permits(1);
        within(shop.service.stop()).await;
        assert_eq!(shop.state.gate.available_permits(), 1, "{server:?}");
        assert_eq!(shop.state.ended.count(), 0);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_and_tries_again_is_charged_once() {
    for server in BOTH {
        let shop = Shop::start(server, &waiting(&idempotency())).await;
        hang_up(&shop, keyed("/gate", "a")).await;
        assert_eq!(shop.state.ended.count(), 0);
        shop.state.gate.add_permits(1);
        let replay = within(shop.service.send(keyed("/gate", "a"), "")).await;
        assert_eq!((replay.text(), replay.is_replay()), ("order 1 ", true));
        assert_eq!(shop.runs(), 1, "{server:?}");
    }
}

#[tokio::test]
async fn drain_waits_for_handlers_whose_clients_have_hung_up() {
    for server in BOTH {
        let idempotency = idempotency();
        let shop = Shop::start(server, &waiting(&idempotency)).await;
        hang_up(&shop, keyed("/gate", "a")).await;
        let busy = idempotency.drain(Duration::from_millis(50)).await;
        assert_eq!(busy.unwrap_err().remaining(), 1, "{server:?}");
        shop.state.gate.add_permits(1);
        let drained = idempotency.drain(MAX_WAIT).await;
        assert_eq!((drained, shop.state.ended.count()), (Ok(()), 1));
        within(shop.service.stop()).await;
    }
}

#[tokio::test]
async fn a_graceful_stop_finishes_the_open_requests() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let request = keyed("/gate", "a").body(Body::empty()).unwrap();
        let (response, _) = shop.service.connect(request).await;
        let response = tokio::spawn(response);
        within(async {
            while shop.runs() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let stopped = tokio::spawn(shop.service.stop());
        shop.state.gate.add_permits(1);
        let response = within(response).await.unwrap().expect("a response");
        assert_eq!(response.status(), 201, "{server:?}");
        within(stopped).await.unwrap();
    }
}

/// A worker of actix ends after its last connection, with its tasks. So `drain` belongs before the end of the server.
#[tokio::test]
async fn a_worker_of_actix_that_ends_leaves_the_key_of_a_detached_handler_taken() {
    let idempotency = idempotency();
    let shop = Shop::start(Server::Actix, &layer_of(&idempotency)).await;
    hang_up(&shop, keyed("/gate", "a")).await;
    within(shop.service.stop()).await;
    let drained = idempotency.drain(MAX_WAIT).await;
    assert_eq!((drained, shop.state.ended.count()), (Ok(()), 0));
    let shop = Shop::start(Server::Actix, &layer_of(&idempotency)).await;
    let again = shop.service.send(keyed("/gate", "a"), "").await;
    assert_eq!((again.status.as_u16(), shop.runs()), (409, 0));
}

fn layer_of(idempotency: &Idempotency) -> idempotence::http::IdempotencyLayer {
    scoped(idempotency).build()
}
