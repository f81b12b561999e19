//! Scopes that name no caller.

use axum::routing::post as on_post;
use axum::{Extension, Router};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Request};
use idempotent_runtime::http::{HasScope, IdempotencyLayer, LayerBuilder};

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
