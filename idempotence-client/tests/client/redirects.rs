//! Redirects, which reqwest follows below the middleware.

use std::net::SocketAddr;

use idempotence::http::Profile;
use idempotence::{Idempotency, MemoryStore};
use idempotence_client::{Answer, IdempotentRequests, same_server_redirects};
use reqwest::Response;
use reqwest_middleware::ClientBuilder;

use crate::proxy::{Fault, Proxy};
use crate::shop::{Shop, client};

async fn serve() -> (Shop, SocketAddr) {
    let shop = Shop::new();
    let server = shop
        .serve(&Idempotency::new(MemoryStore::new()), Profile::Ietf)
        .await;
    (shop, server)
}

async fn send(client: reqwest::ClientBuilder, url: String) -> Response {
    let requests = IdempotentRequests::to_hosts(["127.0.0.1"]);
    let client = ClientBuilder::new(client.build().unwrap())
        .with(requests)
        .build();
    client.post(url).body("tea").send().await.unwrap()
}

#[tokio::test]
async fn a_redirect_to_the_same_server_keeps_the_key_over_all_tries() {
    let (shop, server) = serve().await;
    // The first connection carries the first redirect, and the second loses the reply of the order.
    let proxy = Proxy::start(
        vec![server],
        vec![Fault::None, Fault::LoseReply, Fault::None],
    )
    .await;
    let client = client().redirect(same_server_redirects());
    let response = send(client, format!("http://{}/moved", proxy.address)).await;
    let answer = Answer::of(&response).unwrap();
    assert_eq!((response.status().as_u16(), answer.tries()), (201, 2));
    assert!(answer.is_replay() && response.url().path() == "/orders");
    let requests = shop.requests();
    let key = &requests[0]["idempotency-key"];
    assert!(
        requests.len() == 4
            && requests
                .iter()
                .all(|headers| headers["idempotency-key"] == key)
    );
    assert_eq!(shop.orders()["tea"], 1);
}

#[tokio::test]
async fn a_redirect_to_another_server_is_the_answer() {
    let ((_, server), (other, other_server)) = (serve().await, serve().await);
    let url = format!("http://{server}/moved/{}", other_server.port());
    let response = send(client().redirect(same_server_redirects()), url).await;
    assert_eq!(response.status().as_u16(), 307);
    assert!(!Answer::of(&response).unwrap().ends_key());
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn control_by_default_reqwest_sends_the_key_to_another_server() {
    let ((_, server), (other, other_server)) = (serve().await, serve().await);
    let url = format!("http://{server}/moved/{}", other_server.port());
    let response = send(client(), url).await;
    assert_eq!(response.status().as_u16(), 201);
    assert!(other.requests()[0].contains_key("idempotency-key"));
}

#[tokio::test]
async fn the_answer_of_another_server_after_a_redirect_does_not_end_the_key() {
    let ((_, server), (_, other_server)) = (serve().await, serve().await);
    let url = format!("http://{server}/moved/{}", other_server.port());
    let response = send(client(), url).await;
    assert_eq!(response.status().as_u16(), 201);
    assert!(!Answer::of(&response).unwrap().ends_key());
    let response = send(client(), format!("http://{server}/moved")).await;
    assert!(Answer::of(&response).unwrap().ends_key());
}
