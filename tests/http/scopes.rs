//! Scopes that name no caller.

use axum::routing::post as on_post;
use axum::{Extension, Router};
use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};
use idempotence::http::{HasScope, IdempotencyLayer, LayerBuilder};

use support::http_client::{Orders, Service, idempotency, keyed};

#[derive(Clone)]
struct User {
    id: Option<u64>,
    name: &'static str,
}

async fn shop<S: HasScope>(layer: LayerBuilder<S>, user: User) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new().route("/", on_post(place));
    let app = app.layer(layer.build()).layer(Extension(user));
    (Service::start(app).await, orders)
}

#[tokio::test]
async fn a_scope_without_a_value_is_missing() {
    let builder = || IdempotencyLayer::builder(&idempotency());
    let nobody = User { id: None, name: "" };
    let ada = User {
        id: Some(1),
        name: "ada",
    };
    for (user, status) in [(nobody, 400), (ada, 200)] {
        let by_id = builder().scope_by_extension(|user: &User| user.id);
        let by_name = builder().scope_by_extension(|user: &User| user.name.to_owned());
        let by_head = builder().scope_by(|head| Some(head.extensions.get::<User>()?.name));
        for (service, orders) in [
            shop(by_id, user.clone()).await,
            shop(by_name, user.clone()).await,
            shop(by_head, user.clone()).await,
        ] {
            let reply = service.send(keyed("/", "a"), "").await;
            assert_eq!(reply.status, status);
            assert_eq!(orders.count(), usize::from(status == 200));
        }
    }
}

/// A service whose scope is this part for each request.
async fn scoped_by<P>(part: P) -> (Service, Orders)
where
    P: serde::Serialize + Clone + Send + Sync + 'static,
{
    let layer = IdempotencyLayer::builder(&idempotency());
    let layer = layer.scope_by(move |_| Some(part.clone()));
    shop(layer, User { id: None, name: "" }).await
}

#[tokio::test]
async fn a_scope_with_a_missing_or_empty_part_at_any_depth_is_missing() {
    let nobody = None::<u64>;
    for (service, orders) in [
        scoped_by(" ").await,
        scoped_by(()).await,
        scoped_by(("", "")).await,
        scoped_by((nobody, nobody)).await,
        scoped_by(("shop.example", nobody)).await,
        scoped_by(("shop.example", ("\t", 7))).await,
        scoped_by(["shop.example", ""]).await,
        scoped_by(Vec::<u64>::new()).await,
        scoped_by([0_u64; 0]).await,
        scoped_by(("shop.example", vec![vec!["ada"], vec![]])).await,
        scoped_by(std::collections::BTreeMap::<u64, u64>::new()).await,
        scoped_by(std::collections::BTreeMap::from([("user", nobody)])).await,
        scoped_by(serde_json::json!({"host": "shop.example", "user": null})).await,
    ] {
        let refused = service.send(keyed("/", "a"), "").await;
        assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
        assert_eq!(orders.count(), 0);
    }
    for (service, orders) in [
        scoped_by(("shop.example", 0)).await,
        scoped_by(("shop.example", Some("ada"))).await,
        scoped_by((false, 'a', 0.5, vec![0_u8])).await,
        scoped_by(serde_json::json!({"host": "shop.example", "user": {"id": 0}})).await,
    ] {
        assert_eq!(service.send(keyed("/", "a"), "").await.status, 200);
        assert_eq!(orders.count(), 1);
    }
}

/// The functions in the docs of `scope_by`.
fn host(head: &Parts) -> String {
    let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let named = named.or_else(|| Some(head.uri.authority()?.as_str()));
    named.unwrap_or_default().to_ascii_lowercase()
}

fn user(head: &Parts) -> Option<u64> {
    head.extensions.get::<User>()?.id
}

#[tokio::test]
async fn the_scope_of_several_hosts_on_the_page_refuses_two_anonymous_clients() {
    const PAGE: &str = include_str!("../../docs/guide/http.md");
    assert!(PAGE.contains("scope_by(|head| Some((host(head), user(head)?)))"));
    let builder = || IdempotencyLayer::builder(&idempotency());
    let by_host_and_user = || builder().scope_by(|head| Some((host(head), user(head)?)));
    let nobody = User { id: None, name: "" };
    let (service, orders) = shop(by_host_and_user(), nobody).await;
    for client in ["tea", "cake"] {
        let refused = service.send(keyed("/", "a"), client).await;
        assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
    }
    assert_eq!(orders.count(), 0);
    let ada = User {
        id: Some(1),
        name: "ada",
    };
    let (service, orders) = shop(by_host_and_user(), ada).await;
    let send = async |host: &str| {
        let request = Request::post("/").header("host", host);
        service
            .send(request.header("idempotency-key", "a"), "")
            .await
    };
    for (host, is_replay) in [("a", false), ("A", true), ("b", false)] {
        assert_eq!(send(host).await.is_replay(), is_replay, "{host}");
    }
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn a_refusal_with_401_has_a_challenge() {
    let challenge = || HeaderValue::from_static("Bearer realm=\"shop\"");
    let builder = || IdempotencyLayer::builder(&idempotency());
    let nobody = User { id: None, name: "" };
    let by_token = || builder().scope_by_header(AUTHORIZATION);
    let by_user = || builder().scope_by_extension(|user: &User| user.id);
    let by_tenant = || builder().scope_by_header(HeaderName::from_static("x-tenant"));
    for (with, without) in [
        (
            shop(by_token().challenge(challenge()), nobody.clone()).await,
            shop(by_token(), nobody.clone()).await,
        ),
        (
            shop(by_user().challenge(challenge()), nobody.clone()).await,
            shop(by_user(), nobody.clone()).await,
        ),
    ] {
        let send = async |service: &Service| {
            let request = Request::post("/").header("host", "shop");
            service
                .send(request.header("idempotency-key", "a"), "")
                .await
        };
        let refused = send(&with.0).await;
        assert_eq!(refused.refusal(), (401, "scope_missing".to_owned()));
        assert_eq!(refused.headers[WWW_AUTHENTICATE], challenge());
        let refused = send(&without.0).await;
        assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
        assert!(!refused.headers.contains_key(WWW_AUTHENTICATE));
    }
    // A tenant is no authentication.
    let (service, _) = shop(by_tenant().challenge(challenge()), nobody).await;
    let refused = service.send(keyed("/", "a"), "").await;
    assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
    assert!(!refused.headers.contains_key(WWW_AUTHENTICATE));
}
