//! Single options replace single rows of a convention.

use std::time::Duration;

use http::{HeaderName, Method};
use idempotence::http::{KeySource, KeySyntax, Payload, Profile, RouteOptions};

use super::{Shop, keyed, refusal};
use support::http_client::{idempotency, post, scoped};

#[tokio::test]
async fn an_option_counts_before_and_after_the_profile() {
    let marker = || HeaderName::from_static("x-replay");
    let key = || KeySource::header(HeaderName::from_static("x-key"));
    let before = scoped(&idempotency())
        .replay_header(marker())
        .key_from(key())
        .key_syntax(KeySyntax::Uuid)
        .methods([Method::PUT])
        .optional_key()
        .payload(Payload::none())
        .profile(Profile::Acp);
    let after = scoped(&idempotency())
        .profile(Profile::Acp)
        .replay_header(marker())
        .key_from(key())
        .key_syntax(KeySyntax::Uuid)
        .methods([Method::PUT])
        .optional_key()
        .payload(Payload::none());
    for layer in [before, after] {
        let shop = Shop::of(layer).await;
        let uuid = "2c1d0fd4-9e8f-4f1e-8b5c-27de72fdd2ab";
        let put = |key: &str| post("/orders").method("PUT").header("x-key", key);
        assert_eq!(shop.send(put(uuid), "1").await.headers["x-key"], uuid);
        let replay = shop.send(put(uuid), "2").await;
        assert_eq!(replay.headers["x-replay"], "true");
        assert!(!replay.headers.contains_key("idempotent-replayed"));
        let refused = shop.send(put("a"), "1").await;
        assert_eq!(refusal(&refused).0, 400);
        // A POST is not guarded, and no key is needed.
        shop.assert_repeated(keyed("/orders", "a"), 200, false)
            .await;
        let without_key = post("/orders").method("PUT");
        assert_eq!(shop.send(without_key, "1").await.status, 200);
    }
}

#[tokio::test]
async fn a_route_may_differ_from_the_profile() {
    let layer = scoped(&idempotency())
        .for_route("/uploads", |uploads| {
            uploads.store_if(|head| head.status == 503).optional_key()
        })
        .profile(Profile::Acp);
    let shop = Shop::of(layer).await;
    let uploads = || keyed("/uploads", "a").header("x-status", "503");
    shop.assert_repeated(uploads(), 503, true).await;
    shop.assert_repeated(keyed("/orders", "a"), 503, false)
        .await;
    assert_eq!(shop.send(post("/uploads"), "").await.status, 200);
    assert_eq!(shop.send(post("/orders"), "").await.status, 400);
}

#[tokio::test]
async fn the_program_may_replace_the_body_of_a_profile() {
    let layer = scoped(&idempotency())
        .profile(Profile::Stripe)
        .on_reject(|rejection, response| {
            assert_eq!(rejection.status(), response.status());
            response.map(|_| rejection.code().into())
        });
    let shop = Shop::of(layer).await;
    shop.send(keyed("/orders", "a"), "1").await;
    let refused = shop.send(keyed("/orders", "a"), "2").await;
    assert_eq!(
        (refused.status.as_u16(), refused.text()),
        (400, "payload_mismatch")
    );
}

#[tokio::test]
async fn an_unguarded_route_passes_with_its_key() {
    let layer = scoped(&idempotency())
        .require_key()
        .ttl(Duration::from_hours(1))
        .for_route("/uploads", RouteOptions::unguarded);
    let shop = Shop::of(layer).await;
    for request in [keyed("/uploads", "a"), post("/uploads")] {
        shop.assert_repeated(request, 200, false).await;
    }
    shop.assert_repeated(keyed("/orders", "a"), 200, true).await;
    assert_eq!(shop.send(post("/orders"), "").await.status, 400);
}

#[tokio::test]
async fn a_replay_without_a_mark_is_the_first_response() {
    for profile in [Profile::Ietf, Profile::Stripe] {
        let layer = scoped(&idempotency()).profile(profile).replay_header(None);
        let shop = Shop::of(layer).await;
        let mut replies = Vec::new();
        for _ in 0..2 {
            let mut reply = shop.send(keyed("/orders", "a"), "1").await;
            reply.headers.remove("date");
            replies.push((reply.lines(), reply.body));
        }
        assert_eq!(replies[0], replies[1], "{profile:?}");
        assert_eq!(shop.orders.count(), 1);
    }
}
