//! The four conventions, against the layer of the crate `idempotence` with the same convention.

use std::time::Duration;

use http::HeaderMap;
use idempotence::http::Profile as Convention;
use idempotence::{Idempotency, MemoryStore};
use idempotence_client::{Answer, IdempotentRequests, OutgoingKey, Profile};
use reqwest_middleware::ClientBuilder;

use crate::proxy::{Fault, Proxy};
use crate::shop::{Shop, client, until};

/// Places one order, whose first reply is lost. Returns the headers of its tries, and whether it was a replay.
async fn place(convention: Convention, profile: Profile) -> (Vec<HeaderMap>, bool) {
    let shop = Shop::new();
    let server = shop
        .serve(&Idempotency::new(MemoryStore::new()), convention)
        .await;
    let proxy = Proxy::start(vec![server], vec![Fault::LoseReply, Fault::None]).await;
    let requests = IdempotentRequests::to_hosts(["127.0.0.1"]).profile(profile);
    let client = ClientBuilder::new(client().build().unwrap())
        .with(requests)
        .build();
    let response = client.post(proxy.url()).body("tea").send().await.unwrap();
    let answer = Answer::of(&response).unwrap();
    assert_eq!(
        (response.status().as_u16(), answer.tries()),
        (201, 2),
        "{profile:?}"
    );
    assert_eq!(shop.orders()["tea"], 1, "{profile:?}");
    (shop.requests(), answer.is_replay())
}

#[tokio::test]
async fn a_lost_reply_is_replayed_with_each_convention() {
    for (convention, profile, name, is_quoted, is_marked) in [
        (
            Convention::Ietf,
            Profile::Ietf,
            "idempotency-key",
            true,
            true,
        ),
        (
            Convention::Stripe,
            Profile::Stripe,
            "idempotency-key",
            false,
            true,
        ),
        (
            Convention::Acp,
            Profile::Acp,
            "idempotency-key",
            false,
            true,
        ),
        (
            Convention::Repeatability,
            Profile::Repeatability,
            "repeatability-request-id",
            false,
            false,
        ),
    ] {
        let (tries, is_replay) = place(convention, profile).await;
        assert_eq!(is_replay, is_marked, "{profile:?}");
        for name in [name, "repeatability-first-sent"] {
            let values: Vec<_> = tries.iter().map(|headers| headers.get(name)).collect();
            assert!(
                values.len() == 2 && values[0] == values[1],
                "{profile:?} {values:?}"
            );
        }
        let key = tries[0][name].to_str().unwrap();
        assert_eq!(key.starts_with('"'), is_quoted, "{key}");
        assert_eq!(key.len(), 36 + 2 * usize::from(is_quoted), "{key}");
        let has_date = tries[0].contains_key("repeatability-first-sent");
        assert_eq!(has_date, profile == Profile::Repeatability);
    }
}

#[tokio::test]
async fn a_running_request_is_waited_for_with_each_convention() {
    for (convention, profile) in [
        (Convention::Ietf, Profile::Ietf),
        (Convention::Stripe, Profile::Stripe),
        (Convention::Acp, Profile::Acp),
        (Convention::Repeatability, Profile::Repeatability),
    ] {
        let shop = Shop::new();
        let server = shop
            .serve(&Idempotency::new(MemoryStore::new()), convention)
            .await;
        let requests = IdempotentRequests::to_hosts(["127.0.0.1"])
            .profile(profile)
            .try_timeout(Duration::from_millis(200))
            .backoff(Duration::from_millis(1), Duration::from_millis(1));
        let client = ClientBuilder::new(client().build().unwrap())
            .with(requests)
            .build();
        let key = OutgoingKey::random();
        let request = client
            .post(format!("http://{server}/orders"))
            .body("slow")
            .with_extension(key);
        let sent = tokio::spawn(async move { request.send().await.unwrap() });
        until(|| shop.requests().len() >= 3).await;
        shop.gate.add_permits(1);
        let response = sent.await.unwrap();
        assert_eq!(response.status().as_u16(), 201, "{profile:?}");
        assert_eq!(shop.orders()["slow"], 1, "{profile:?}");
    }
}
