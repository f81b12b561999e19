//! What operators write and see of a route: settings, `peek`, events and the list of endpoints.

use std::env;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::routing::post as on_post;
use axum::{Extension, Router};
use idempotence::http::{IdempotencyLayer, Profile};
use idempotent_runtime::store::Level;
use idempotent_runtime::{Event, Idempotency, MemoryStore, Settings};

use support::http_client::{Service, keyed, scoped};

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
async fn the_list_of_endpoints_names_the_layer_as_the_origin_of_its_options() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let layer = scoped(&idempotency)
        .wait(Duration::from_secs(5))
        .for_route("/notes", |notes| notes.ttl(Duration::from_hours(1)))
        .build();
    let app = Router::new()
        .route("/orders", on_post(async || "placed"))
        .route("/notes", on_post(async || "noted"));
    let shop = Service::start(app.route_layer(layer)).await;
    for path in ["/orders", "/notes"] {
        shop.send(keyed(path, "a"), "").await;
    }
    let rest = "lease = 30s (default), wait = 5s (layer), on_store_error = refuse (default)";
    let listed = idempotency.endpoints().to_string();
    for (path, ttl) in [("/orders", "1d (default)"), ("/notes", "1h (layer)")] {
        let line = format!("POST {path}: ttl = {ttl}, {rest}");
        assert!(listed.lines().any(|listed| listed == line), "{listed}");
    }
}

#[tokio::test]
async fn an_operator_finds_a_key_by_the_head_of_its_request() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let orders = || Router::new().route("/orders/{id}/pay", on_post(async || "paid"));
    for profile in [Profile::Ietf, Profile::Stripe, Profile::Acp] {
        let by_header = scoped(&idempotency).profile(profile).build();
        let by_extension = IdempotencyLayer::builder(&idempotency)
            .scope_by_extension(|user: &User| user.0)
            .profile(profile)
            .build();
        for layer in [by_header, by_extension] {
            let app = orders().route_layer(layer.clone());
            let shop = Service::start(app.route_layer(Extension(User(7)))).await;
            let head = |key: &str| {
                let request = keyed("/orders/1/pay", key).extension(User(7));
                request.body(()).unwrap().into_parts().0
            };
            shop.send(keyed("/orders/1/pay", "a"), "").await;
            let found = layer.peek(PAY, &head("a")).await.unwrap().unwrap();
            assert!(layer.peek(PAY, &head("b")).await.unwrap().is_none());
            assert!(idempotency.forget(&found).await.unwrap(), "{profile:?}");
            let again = shop.send(keyed("/orders/1/pay", "a"), "").await;
            assert!(!again.is_replay(), "{profile:?}");

            let bare = || http::Request::post("/orders/1/pay");
            let only_key = bare().header("idempotency-key", "a");
            for request in [bare(), only_key] {
                let (head, ()) = request.body(()).unwrap().into_parts();
                let refused = layer.peek(PAY, &head).await.unwrap_err();
                assert_eq!(refused.code(), "invalid_key", "{profile:?}");
            }
        }
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

#[tokio::test]
async fn metrics_have_the_route_as_their_label() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    // The service runs in this thread, too.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let idempotency = Idempotency::new(MemoryStore::new());
    let shop = shop(&idempotency).await;
    for path in ["/orders/1/pay", "/orders/1/pay", "/orders/2/pay"] {
        shop.send(keyed(path, "a"), "").await;
    }
    let mut calls = Vec::new();
    for (key, ..) in recorder.snapshotter().snapshot().into_vec() {
        let key = key.key();
        if key.name() == "idempotence_calls_total" {
            let labels = key.labels().map(|label| label.value().to_owned());
            calls.push(labels.collect::<Vec<_>>());
        }
    }
    calls.sort();
    let expected = ["executed", "mismatch", "replayed"];
    assert_eq!(
        calls,
        expected.map(|kind| vec![PAY.to_owned(), kind.to_owned()])
    );
}

#[tokio::test]
async fn the_doctor_leaves_the_keys_of_routes_as_they_are() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let shop = shop(&idempotency).await;
    shop.send(keyed("/orders/1/pay", "a"), "").await;
    let diagnosis = idempotency.doctor().await;
    assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
    let replay = shop.send(keyed("/orders/1/pay", "a"), "").await;
    assert!(replay.is_replay());
    let listed = idempotency.endpoints().to_string();
    let begin = format!("{PAY}: ttl = 1d");
    assert!(
        listed.lines().any(|line| line.starts_with(&begin)),
        "{listed}"
    );
}

/// What the child process prints before the remaining time of its record.
const SEEN: &str = "seen: ";

#[tokio::test]
async fn a_variable_of_a_route_is_in_force() {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "operators::child", "--ignored", "--nocapture"]);
    child.env("IDEMPOTENCE__POST__ORDERS__ID__PAY__TTL", "1h");
    let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let seconds = output.lines().find_map(|line| line.split_once(SEEN));
    let seconds: u64 = seconds.expect(&output).1.parse().unwrap();
    // Without the variable it is 24 hours.
    assert!((3_500..=3_600).contains(&seconds), "{output}");
}

#[tokio::test]
#[ignore = "runs in a process that another test starts"]
async fn child() {
    let builder = Idempotency::builder(MemoryStore::new()).settings(Settings::env());
    let idempotency = builder.build().unwrap();
    let shop = shop(&idempotency).await;
    shop.send(keyed("/orders/1/pay", "a"), "").await;
    let done = idempotency.peek(PAY, &("extension", 7_u32, "a")).await;
    let remaining = done.unwrap().unwrap().remaining().unwrap();
    println!("{SEEN}{}", remaining.as_secs());
}

#[tokio::test]
async fn the_handler_of_a_disabled_route_runs_for_each_request_and_the_outer_layer_sees_it() {
    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::middleware::map_response;
    use axum::response::Response;
    use idempotence::http::{IdempotencyContext, IdempotencyOutcome};

    use support::http_client::{Orders, post};

    let file = format!("idempotence-disabled-{}.toml", std::process::id());
    let file = std::env::temp_dir().join(file);
    std::fs::write(&file, "[endpoints.\"POST /orders\"]\ndisabled = true\n").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let built = Idempotency::builder(MemoryStore::new())
        .settings(Settings::file(&file))
        .observer(move |event: &Event<'_>| sink.lock().unwrap().push(event.kind().to_string()))
        .build();
    std::fs::remove_file(&file).unwrap();
    let idempotency = built.unwrap();
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |request: Request| async move {
        let context = request.extensions().get::<IdempotencyContext>();
        assert_eq!(context.unwrap().endpoint(), "POST /orders");
        let status = match placed.place() {
            3 => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::OK,
        };
        (status, placed.count().to_string())
    };
    let app = Router::new().route("/orders", on_post(place));
    let app = app.layer(scoped(&idempotency).require_key().build());
    let app = app.layer(map_response(async |response: Response| {
        let outcome = response.extensions().get::<IdempotencyOutcome>().copied();
        let expected = match response.status() {
            StatusCode::BAD_REQUEST => IdempotencyOutcome::Refused,
            _ => IdempotencyOutcome::Unguarded,
        };
        assert_eq!(outcome, Some(expected));
        response
    }));
    let service = Service::start(app).await;
    for order in ["1", "2", "3"] {
        let reply = service.send(keyed("/orders", "a"), "").await;
        assert_eq!((reply.text(), reply.is_replay()), (order, false));
    }
    assert_eq!(*seen.lock().unwrap(), ["disabled"; 3]);
    // What the layer asks of a client does not change, so clients need no other program.
    let refused = service.send(post("/orders"), "").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(orders.count(), 3);
}

#[tokio::test]
async fn a_setting_of_a_route_is_in_force_and_in_the_list() {
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
