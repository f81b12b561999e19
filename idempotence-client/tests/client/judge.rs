//! What can be known from an error about the work of a request.

use std::time::Duration;

use idempotence_client::{IdempotentRequests, is_outcome_unknown};
use reqwest_middleware::ClientBuilder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server that reads each request, sends these bytes, and then closes the connection or stays silent.
async fn server(answer: &'static str, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charges", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let _ = connection.write_all(answer.as_bytes()).await;
            if !closes {
                silent.push(connection);
            }
        }
    });
    url
}

const MINUTE: Duration = Duration::from_mins(1);

/// Ends the requests to a silent server. A machine that stands still for three seconds has sent them before.
const PATIENCE: Duration = Duration::from_secs(5);

fn client(timeout: Duration) -> reqwest::Client {
    let client = reqwest::Client::builder().timeout(timeout);
    client.no_proxy().build().unwrap()
}

/// The error of a request, of its status, or of the body of its answer.
async fn failure(url: &str, timeout: Duration) -> reqwest::Error {
    let answer = match client(timeout).post(url).body("500").send().await {
        Ok(answer) => answer,
        Err(error) => return error,
    };
    match answer.error_for_status() {
        Ok(answer) => answer.bytes().await.unwrap_err(),
        Err(error) => error,
    }
}

#[tokio::test]
async fn an_outcome_is_unknown_after_a_request_without_an_answer() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut";
    let cases = [
        ("", false),
        ("", true),
        ("HTTP/1.1 2", true),
        (cut, true),
        (cut, false),
    ];
    let mut checks = JoinSet::new();
    for (answer, closes) in cases {
        checks.spawn(async move {
            let timeout = if closes { MINUTE } else { PATIENCE };
            let error = failure(&server(answer, closes).await, timeout).await;
            assert!(is_outcome_unknown(&error), "{answer:?} {closes}: {error:?}");
        });
    }
    checks.join_all().await;
}

#[tokio::test]
async fn a_status_says_whether_the_work_may_be_done() {
    for (answer, expected) in [
        ("HTTP/1.1 408 A\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 500 A\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 504 A\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 402 A\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.1 422 A\r\ncontent-length: 0\r\n\r\n", false),
    ] {
        let error = failure(&server(answer, true).await, MINUTE).await;
        assert_eq!(is_outcome_unknown(&error), expected, "{answer}: {error:?}");
    }
}

#[tokio::test]
async fn nothing_was_sent_without_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for url in [closed.as_str(), "no url"] {
        let error = failure(url, MINUTE).await;
        assert!(!is_outcome_unknown(&error), "{error:?}");
    }
    assert!(!is_outcome_unknown(&std::fmt::Error));
}

#[tokio::test]
async fn an_unanswered_request_of_the_middleware_has_an_unknown_outcome() {
    let requests = IdempotentRequests::to_hosts(["127.0.0.1"]).deadline(PATIENCE);
    let guarded = ClientBuilder::new(client(MINUTE)).with(requests).build();
    for (url, client) in [
        (server("", false).await, guarded),
        (
            server("", true).await,
            ClientBuilder::new(client(MINUTE)).build(),
        ),
    ] {
        let error = client.post(url).body("500").send().await.unwrap_err();
        assert!(is_outcome_unknown(&error), "{error:?}");
    }
}
