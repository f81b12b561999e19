//! Bodies that are streams, long or broken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use idempotence_client::{Answer, Unanswered};
use reqwest::Body;

use crate::script::{Script, Step, URL, requests};

/// A body that has these parts, then an end.
struct Parts(Vec<&'static str>, End);

#[derive(Clone, Copy, PartialEq)]
enum End {
    Whole,
    Broken,
    Open,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.0.is_empty() {
            let part = Bytes::from_static(self.0.remove(0).as_bytes());
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        match self.1 {
            End::Whole => Poll::Ready(None),
            End::Broken => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            End::Open => Poll::Pending,
        }
    }
}

fn streamed(content_type: &str, end: End) -> Step {
    let body = Body::wrap(Parts(vec!["one ", "two ", "three"], end));
    let answer = http::Response::builder().header("content-type", content_type);
    Step::Answer(answer.body(body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_body_breaks_off_is_lost_so_the_same_request_gets_it_again() {
    let script = Script::new([
        streamed("text/plain", End::Broken),
        streamed("text/plain", End::Whole),
    ]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert_eq!(Answer::of(&response).unwrap().tries(), 2);
    assert_eq!(response.content_length(), Some(13));
    assert_eq!(response.text().await.unwrap(), "one two three");
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_and_a_body_over_the_limit_are_passed_on_while_they_arrive() {
    for (content_type, limit) in [
        ("text/event-stream; charset=utf-8", 1000),
        ("application/x-ndjson", 1000),
        ("application/json-seq", 1000),
        ("Multipart/X-Mixed-Replace; boundary=x", 1000),
        ("text/plain", 5),
        ("text/plain", 0),
    ] {
        let script = Script::new([streamed(content_type, End::Open)]);
        let client = script.client(requests().response_limit(limit));
        let mut response = client.post(URL).send().await.unwrap();
        assert_eq!((response.content_length(), script.tries()), (None, 1));
        let mut arrived = Vec::new();
        while arrived.len() < 13 {
            arrived.extend(response.chunk().await.unwrap().unwrap());
        }
        assert_eq!(arrived, b"one two three", "{content_type}");
    }
    // A body that stays open would be a lost answer without the limit.
    let script = Script::new([streamed("text/plain", End::Open)]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert_eq!(
        (Answer::of(&response).unwrap().tries(), script.tries()),
        (2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_of_tiny_chunks_is_kept_in_a_few_pieces() {
    let chunks = 20_000;
    let tiny = Body::wrap(Parts(vec!["x"; chunks], End::Whole));
    let script = Script::new([Step::Answer(http::Response::new(tiny))]);
    let mut response = script.client(requests()).post(URL).send().await.unwrap();
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(piece) = response.chunk().await.unwrap() {
        pieces += 1;
        bytes += piece.len();
    }
    assert_eq!(bytes, chunks);
    assert!(pieces < 10, "{pieces} pieces");
}

#[tokio::test(start_paused = true)]
async fn with_the_limit_0_the_caller_gets_the_head_before_the_first_byte() {
    let silent = Body::wrap(Parts(Vec::new(), End::Open));
    let script = Script::new([Step::Answer(http::Response::new(silent))]);
    let client = script.client(requests().response_limit(0));
    let response = client.post(URL).send().await.unwrap();
    assert_eq!((response.status().as_u16(), script.tries()), (200, 1));
    assert_eq!(Answer::of(&response).unwrap().tries(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_url_and_the_headers_of_an_answer_stay() {
    use reqwest::ResponseBuilderExt as _;
    let url: reqwest::Url = "http://shop.example/moved".parse().unwrap();
    let answer = http::Response::builder()
        .url(url.clone())
        .version(http::Version::HTTP_2);
    let answer = answer
        .header("location", "/orders/1")
        .body(Body::from("b"))
        .unwrap();
    let script = Script::new([Step::Answer(answer)]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert_eq!(
        (response.url(), response.version()),
        (&url, http::Version::HTTP_2)
    );
    assert_eq!(response.headers()["location"], "/orders/1");
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_stream_is_sent_once_and_the_error_says_why() {
    let stream = || Body::wrap(Parts(vec!["upload"], End::Whole));
    let script = Script::new([Step::Lost]);
    let client = script.client(requests());
    let error = client.post(URL).body(stream()).send().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its body is a stream, which cannot be sent again"),
        "{error}"
    );
    let unanswered = Unanswered::of(&error).unwrap();
    assert!(unanswered.tries() == 1);
    let response = client.post(URL).body(stream()).send().await.unwrap();
    assert_eq!(Answer::of(&response).unwrap().tries(), 1);
    assert_eq!(script.tries(), 2);
}
