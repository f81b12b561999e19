//! What operators write and see of a route: settings, `peek`, events and the list of endpoints.

use std::sync::{Arc, Mutex};

use axum::routing::post as on_post;
use axum::{Extension, Router};
use idempotent_runtime::http::IdempotencyLayer;
use idempotent_runtime::{Event, Idempotency, MemoryStore};

use crate::client::{Service, keyed, scoped};

const PAY: &str = "POST /orders/{id}/pay";

#[derive(Clone)]
struct User(u32);

/// A service with `/orders/{id}/pay`, for one user.
async fn shop(idempotency: &Idempotency) -> Service {
    let layer = IdempotencyLayer::builder(idempotency)
        .scope_by_extension(|user: &User| user.0)
        .build();
    let app = Router::new()
        .route("/orders/{id}/pay", on_post(async || "paid"))
        .route_layer(layer)
        .route_layer(Extension(User(7)));
    Service::start(app).await
}

#[tokio::test]
async fn an_operator_finds_the_key_of_a_client_that_a_header_names() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let layer = scoped(&idempotency).build();
    let app = Router::new().route("/orders", on_post(async || "placed"));
    let shop = Service::start(app.layer(layer)).await;
    shop.send(keyed("/orders", "a"), "").await;
    for (name, is_found) in [("alice", true), ("bob", false)] {
        let key = ("header", "authorization", [name.as_bytes()], "a");
        let found = idempotency.peek("POST /orders", &key).await.unwrap();
        assert_eq!(found.is_some(), is_found, "{name}");
    }
}

#[tokio::test]
async fn an_operator_finds_and_frees_the_key_of_a_route() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let shop = shop(&idempotency).await;
    shop.send(keyed("/orders/1/pay", "a"), "").await;
    for name in [PAY, "POST./orders/(id)/pay"] {
        let done = idempotency.peek(name, &("extension", 7_u32, "a")).await;
        assert!(done.unwrap().is_some(), "{name}");
        let free = idempotency.peek(name, &("extension", 8_u32, "a")).await;
        assert!(free.unwrap().is_none(), "{name}");
    }
    let done = idempotency.peek(PAY, &("extension", 7_u32, "a")).await;
    assert!(idempotency.forget(&done.unwrap().unwrap()).await.unwrap());
    let again = shop.send(keyed("/orders/1/pay", "a"), "").await;
    assert!(!again.is_replay());
}

#[tokio::test]
async fn events_name_a_route_as_the_router_does() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| {
            let line = format!("{}: {}", event.endpoint(), event.kind().as_str());
            sink.lock().unwrap().push(line);
        })
        .build()
        .unwrap();
    let shop = shop(&idempotency).await;
    for _ in 0..2 {
        shop.send(keyed("/orders/1/pay", "a"), "").await;
    }
    let expected = ["executed", "replayed"].map(|kind| format!("{PAY}: {kind}"));
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[cfg(feature = "toml")]
#[tokio::test]
async fn a_setting_of_a_route_is_in_force_and_in_the_list() {
    use std::time::Duration;

    use idempotent_runtime::Settings;

    let file = format!("idempotence-routes-{}.toml", std::process::id());
    let file = std::env::temp_dir().join(file);
    let text = format!("[endpoints.\"{PAY}\"]\nttl = \"1h\"\n");
    std::fs::write(&file, text).unwrap();
    let built = Idempotency::builder(MemoryStore::new())
        .settings(Settings::file(&file))
        .build();
    std::fs::remove_file(&file).unwrap();
    let idempotency = built.unwrap();
    let shop = shop(&idempotency).await;
    shop.send(keyed("/orders/1/pay", "a"), "").await;
    let done = idempotency.peek(PAY, &("extension", 7_u32, "a")).await;
    let remaining = done.unwrap().unwrap().remaining().unwrap();
    // Without the setting it is 24 hours.
    assert!(remaining <= Duration::from_hours(1), "{remaining:?}");
    let endpoints = idempotency.endpoints().to_string();
    let begin = format!("{PAY}: ttl = 1h ({}:2)", file.display());
    assert!(
        endpoints.lines().any(|line| line.starts_with(&begin)),
        "{endpoints}"
    );
    assert_eq!(idempotency.settings_problems(), [""; 0]);
}
