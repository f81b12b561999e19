//! Orders through a proxy that loses requests and replies.

use std::sync::Arc;
use std::time::Duration;

use idempotence::http::Profile;
use idempotence::{Idempotency, MemoryStore};
use idempotence_client::{Answer, IdempotentRequests, OutgoingKey, Unanswered};
use idempotence_test_servers::RedisServer;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::sync::Barrier;

use crate::proxy::{Fault, Proxy};
use crate::shop::{Shop, client, until};

/// Half of the connections are whole.
const FAULTS: [Fault; 10] = [
    Fault::LoseRequest,
    Fault::LoseReply,
    Fault::None,
    Fault::None,
    Fault::CutHead,
    Fault::CutBody,
    Fault::None,
    Fault::Silence,
    Fault::None,
    Fault::None,
];

/// The number of orders, which are sent at the same time.
const ORDERS: usize = 40;

fn requests() -> IdempotentRequests {
    IdempotentRequests::to_hosts(["127.0.0.1"])
        .try_timeout(Duration::from_secs(2))
        .backoff(Duration::from_millis(20), Duration::from_millis(100))
}

/// Requests whose tries end only by an answer or an error, also on a machine that stands still for seconds.
fn patient() -> IdempotentRequests {
    requests().try_timeout(Duration::from_mins(1))
}

fn guarded(requests: IdempotentRequests) -> ClientWithMiddleware {
    ClientBuilder::new(client().build().unwrap())
        .with(requests)
        .build()
}

/// Sends all orders at once, by a function that sends one order until it is answered.
async fn send_all<F>(send: impl Fn(String) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(ORDERS));
    let mut tasks = tokio::task::JoinSet::new();
    for order in 0..ORDERS {
        let (barrier, order) = (Arc::clone(&barrier), send(format!("order {order}")));
        tasks.spawn(async move {
            barrier.wait().await;
            order.await;
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

/// Asserts that each order was placed once, and answered with its own answer.
async fn assert_each_order_is_placed_once(shop: &Shop, proxy: &Proxy) {
    let (url, client) = (proxy.url(), guarded(requests()));
    send_all(|order| {
        let request = client.post(&url).body(order.clone());
        async move {
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 201);
            let answer = Answer::of(&response).unwrap();
            assert!(answer.ends_key());
            // After a lost reply the server knows the key. A lost request leaves no trace.
            assert!(answer.tries() > 1 || !answer.is_replay(), "{answer:?}");
            assert_eq!(response.text().await.unwrap(), order);
        }
    })
    .await;
    let orders = shop.orders();
    assert_eq!(orders.len(), ORDERS);
    assert!(orders.values().all(|count| *count == 1), "{orders:?}");
    assert!(
        proxy.connections() > ORDERS + ORDERS / 4,
        "{}",
        proxy.connections()
    );
}

#[tokio::test]
async fn each_order_is_placed_once_although_replies_are_lost() {
    let (shop, idempotency) = (Shop::new(), Idempotency::new(MemoryStore::new()));
    let server = shop.serve(&idempotency, Profile::Ietf).await;
    let proxy = Proxy::start(vec![server], FAULTS.to_vec()).await;
    assert_each_order_is_placed_once(&shop, &proxy).await;
}

#[tokio::test]
async fn each_order_is_placed_once_although_its_tries_reach_two_servers() {
    let redis = RedisServer::start().unwrap();
    let shop = Shop::new();
    let mut servers = Vec::new();
    for _ in 0..2 {
        let builder = Idempotency::builder_from_url(&redis.url()).await;
        let builder = builder.unwrap().deadline(Duration::from_mins(1));
        let idempotency = builder.build().unwrap();
        servers.push(shop.serve(&idempotency, Profile::Ietf).await);
    }
    // With an odd number of connections in each round, both servers get each fault.
    let faults = [&FAULTS[..], &[Fault::None]].concat();
    let proxy = Proxy::start(servers, faults).await;
    assert_each_order_is_placed_once(&shop, &proxy).await;
}

#[tokio::test]
async fn control_without_the_middleware_orders_are_placed_twice() {
    let (shop, idempotency) = (Shop::new(), Idempotency::new(MemoryStore::new()));
    let server = shop.serve(&idempotency, Profile::Ietf).await;
    let proxy = Proxy::start(vec![server], FAULTS.to_vec()).await;
    let client = client().timeout(Duration::from_secs(2)).build().unwrap();
    let url = proxy.url();
    send_all(|order| {
        let (client, url) = (client.clone(), url.clone());
        async move {
            loop {
                let Ok(response) = client.post(&url).body(order.clone()).send().await else {
                    continue;
                };
                if response.text().await.is_ok() {
                    return;
                }
            }
        }
    })
    .await;
    assert!(
        shop.orders().values().any(|count| *count > 1),
        "{:?}",
        shop.orders()
    );
}

#[tokio::test]
async fn each_fault_is_survived_and_only_a_lost_reply_leads_to_a_replay() {
    for (fault, is_replay) in [
        (Fault::LoseRequest, false),
        (Fault::LoseReply, true),
        (Fault::CutHead, true),
        (Fault::CutBody, true),
        (Fault::Silence, true),
    ] {
        if fault != Fault::Silence {
            let (tries, was_replay) = order_after(fault, patient()).await;
            assert_eq!((tries, was_replay), (2, is_replay), "{fault:?}");
            continue;
        }
        // The limit of a try, which ends the silence, also ends other tries on a machine that stands still: the first before it arrives, or
        // the next before its answer.
        let mut limits = [2, 8, 30].into_iter();
        loop {
            let limit = limits.next().expect("a first try that arrived");
            let requests = requests().try_timeout(Duration::from_secs(limit));
            let (tries, was_replay) = order_after(fault, requests).await;
            assert!(tries >= 2, "{tries}");
            if was_replay == is_replay {
                break;
            }
        }
    }
}

/// Sends an order whose first try meets this fault. Returns the number of tries, and whether the answer was replayed.
async fn order_after(fault: Fault, requests: IdempotentRequests) -> (u32, bool) {
    let (shop, idempotency) = (Shop::new(), Idempotency::new(MemoryStore::new()));
    let server = shop.serve(&idempotency, Profile::Ietf).await;
    let proxy = Proxy::start(vec![server], vec![fault, Fault::None]).await;
    let order = guarded(requests).post(proxy.url()).body("tea").send();
    let response = order.await.unwrap();
    assert_eq!(shop.orders()["tea"], 1);
    let answer = Answer::of(&response).unwrap();
    (answer.tries(), answer.is_replay())
}

#[tokio::test]
async fn a_request_whose_first_try_still_runs_waits_for_its_answer() {
    let shop = Shop::new();
    let hint = Duration::from_millis(300);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .retry_hint(hint..=hint)
        .build();
    let server = shop.serve(&idempotency.unwrap(), Profile::Ietf).await;
    let client = guarded(requests().try_timeout(Duration::from_millis(200)));
    let url = format!("http://{server}/orders");
    let sent = tokio::spawn(async move { client.post(url).body("slow").send().await.unwrap() });
    // The first try ends by its limit. The next ones get 409, and wait as the server asks.
    until(|| shop.requests().len() >= 4).await;
    shop.gate.add_permits(1);
    let response = sent.await.unwrap();
    let answer = Answer::of(&response).unwrap();
    assert!(answer.is_replay() && answer.tries() >= 4, "{answer:?}");
    assert_eq!(shop.orders()["slow"], 1);
}

#[tokio::test]
async fn an_unknown_outcome_reaches_the_caller_and_keeps_the_key() {
    let (shop, idempotency) = (Shop::new(), Idempotency::new(MemoryStore::new()));
    let server = shop.serve(&idempotency, Profile::Ietf).await;
    let proxy = Proxy::start(vec![server], vec![Fault::None]).await;
    let response = guarded(patient())
        .post(proxy.url())
        .body("unsure")
        .send()
        .await
        .unwrap();
    let answer = Answer::of(&response).unwrap();
    // 502 asks for another try, and that try gets the refusal.
    assert_eq!((response.status().as_u16(), answer.tries()), (409, 2));
    assert_eq!(answer.problem().unwrap().code(), Some("outcome_unknown"));
    assert!(!answer.ends_key());
    assert_eq!(shop.orders()["unsure"], 1);
}

#[tokio::test]
async fn a_later_request_with_the_key_of_the_caller_gets_the_first_answer() {
    let (shop, idempotency) = (Shop::new(), Idempotency::new(MemoryStore::new()));
    let server = shop.serve(&idempotency, Profile::Ietf).await;
    let proxy = Proxy::start(vec![server], vec![Fault::Silence, Fault::None]).await;
    let key = OutgoingKey::random();
    let impatient = guarded(
        requests()
            .deadline(Duration::from_secs(4))
            .try_timeout(Duration::from_secs(9)),
    );
    let request = impatient
        .post(proxy.url())
        .body("tea")
        .with_extension(key.clone());
    let error = request.send().await.unwrap_err();
    assert_eq!(Unanswered::of(&error).unwrap().key(), &key);
    until(|| shop.orders().contains_key("tea")).await;
    let request = guarded(requests())
        .post(proxy.url())
        .body("tea")
        .with_extension(key);
    let response = request.send().await.unwrap();
    assert!(Answer::of(&response).unwrap().is_replay());
    assert_eq!(shop.orders()["tea"], 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_tried_until_the_deadline() {
    let mut deadline = Duration::from_millis(500);
    loop {
        let client = guarded(requests().deadline(deadline));
        let error = client.post(closed_port().await).send().await.unwrap_err();
        let unanswered = Unanswered::of(&error).unwrap();
        // A busy machine may have time for one try only, so then there is a longer deadline.
        if unanswered.tries() > 1 {
            return assert!(unanswered.last_error().unwrap().is_connect());
        }
        deadline *= 2;
        assert!(deadline < Duration::from_mins(1), "{unanswered:?}");
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_sent_is_tried_once() {
    let error = guarded(requests()).post("ftp://127.0.0.1").send().await;
    let error = error.unwrap_err();
    let unanswered = Unanswered::of(&error).unwrap();
    assert!(unanswered.last_error().unwrap().is_builder());
    assert_eq!(unanswered.tries(), 1);
}

async fn closed_port() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/orders", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_error_of_an_unanswered_request_hides_its_query() {
    let proxy = Proxy::start(vec![([127, 0, 0, 1], 1).into()], vec![Fault::LoseRequest]).await;
    let requests = requests().deadline(Duration::from_secs(4));
    let url = format!("{}?token=s3cret#place", proxy.url());
    let error = guarded(requests).post(url).send().await.unwrap_err();
    let unanswered = Unanswered::of(&error).expect("no answer");
    let last = unanswered.last_error().expect("an error");
    for text in [
        format!("{error:?}"),
        format!("{unanswered:?}"),
        format!("{last:?}"),
        last.to_string(),
    ] {
        assert!(
            !text.contains("s3cret") && !text.contains("#place"),
            "{text}"
        );
    }
}
