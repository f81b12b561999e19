//! A client that repeats its request with the same `Idempotency-Key` until it gets a success, as clients of HTTP do.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::check::{Answer, Attempts, Success};
use super::service::{MADE_AT, call_of};
use crate::history::{Endpoint, Key, Micros, now};

/// A client waits for one response at most this long.
const PATIENCE: Duration = Duration::from_mins(1);
/// A client repeats its request at most this long.
const GIVES_UP: Duration = Duration::from_mins(10);
/// The header that marks a replay.
const MARKER: &str = "idempotency-replayed";

/// A client. It alternates between the services.
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) key: Key,
    pub(super) services: [SocketAddr; 2],
    pub(super) random: StdRng,
}

impl Client {
    /// Repeats the request until a success. Disconnects in the middle of some of the first attempts.
    pub(super) async fn call(mut self) -> (Answer, Attempts) {
        let mut attempts = Attempts::default();
        let gives_up_at = Instant::now() + GIVES_UP;
        for attempt in 0.. {
            let disconnects = attempt < 3 && self.random.random_ratio(1, 4);
            let patience = if disconnects {
                Duration::from_millis(self.random.random_range(1..400))
            } else {
                PATIENCE
            };
            let service = self.services[(self.number + attempt) % 2];
            attempts.sent += 1;
            match timeout(patience, send(service, self.key)).await {
                Err(_) => attempts.disconnected += 1,
                Ok(Err(_)) => attempts.lost += 1,
                Ok(Ok(response)) => match response.status {
                    200..300 => return (response.success(), attempts),
                    409 if response.is_refusal("in_progress") => attempts.in_progress += 1,
                    503 if response.is_refusal("store_unavailable") => {
                        attempts.unavailable += 1;
                        attempts.last_unavailable = Some(response.refused_at());
                    }
                    // The client does not know whether its order was made, so it sends the same key again.
                    500 if response.is_problem("lease_lost") => {
                        attempts.unavailable += 1;
                        attempts.last_unavailable = Some(response.refused_at());
                    }
                    _ => return (Answer::Unexpected(response.text()), attempts),
                },
            }
            if Instant::now() > gives_up_at {
                break;
            }
            let longest = 100 << attempt.min(4);
            sleep(Duration::from_millis(self.random.random_range(20..longest))).await;
        }
        (Answer::None, attempts)
    }
}

/// Sends the request after a storm. Repeats it only while the store of a busy machine does not answer in time. Also returns when it was
/// refused for that.
pub(super) async fn ask(service: SocketAddr, key: Key) -> (Answer, Vec<Micros>) {
    let (mut refused, gives_up_at) = (Vec::new(), Instant::now() + GIVES_UP);
    while Instant::now() < gives_up_at {
        match timeout(PATIENCE, send(service, key)).await {
            Err(_) => break,
            Ok(Err(error)) => return (Answer::Unexpected(error.to_string()), refused),
            Ok(Ok(response)) => match response.status {
                200..300 => return (response.success(), refused),
                503 if response.is_refusal("store_unavailable") => {
                    refused.push(response.refused_at());
                }
                _ => return (Answer::Unexpected(response.text()), refused),
            },
        }
        sleep(Duration::from_millis(100)).await;
    }
    (Answer::None, refused)
}

/// Sends the request on a new connection.
async fn send(service: SocketAddr, key: Key) -> io::Result<Response> {
    let mut stream = TcpStream::connect(service).await?;
    let Key { endpoint, number } = key;
    let path = match endpoint {
        Endpoint::Order => "order",
        _ => "pay",
    };
    let body = format!("{{\"number\":{number}}}");
    let length = body.len();
    let request = format!(
        "POST /{path}/{number} HTTP/1.1\r\nhost: {service}\r\nconnection: close\r\n\
         idempotency-key: \"storm-{number}\"\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Response::read(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A complete response.
#[derive(Debug)]
struct Response {
    status: u16,
    /// When the service made it, if it is no success.
    made_at: Option<Micros>,
    /// The lines of the head without `date` and the marker of a replay.
    head: Vec<String>,
    is_replay: bool,
    body: Vec<u8>,
}

impl Response {
    /// `None` if the connection was cut within the response.
    fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = str::from_utf8(&bytes[..end]).ok()?;
        let body = bytes[end + 4..].to_vec();
        let mut response = Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            made_at: None,
            head: Vec::new(),
            is_replay: false,
            body,
        };
        for line in head.split("\r\n") {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            match &*name.to_ascii_lowercase() {
                "date" => continue,
                MADE_AT => {
                    response.made_at = value.parse().ok();
                    continue;
                }
                MARKER => {
                    response.is_replay = true;
                    continue;
                }
                "content-length" if value.parse() != Ok(response.body.len()) => return None,
                _ => {}
            }
            response.head.push(line.to_owned());
        }
        Some(response)
    }

    /// When the service made it. Without its word this is now, so that no refusal remains without a judgement.
    fn refused_at(&self) -> Micros {
        self.made_at.unwrap_or_else(now)
    }

    /// Whether this is a problem with this code that says when the client may come back.
    fn is_refusal(&self, code: &str) -> bool {
        let is_time = |value: &str| value.parse().is_ok_and(|seconds: u64| seconds > 0);
        self.is_problem(code)
            && self.has("retry-after", is_time)
            && self.contains("\"retryable\":true")
    }

    /// Whether this is a problem with this code, and no replay.
    fn is_problem(&self, code: &str) -> bool {
        let is_problem = |value: &str| value == "application/problem+json";
        self.has("content-type", is_problem)
            && self.contains(&format!("\"code\":\"{code}\""))
            && !self.is_replay
    }

    fn has(&self, name: &str, is_valid: fn(&str) -> bool) -> bool {
        let mut lines = self.head.iter().filter_map(|line| line.split_once(": "));
        lines.any(|(of, value)| of.eq_ignore_ascii_case(name) && is_valid(value))
    }

    fn contains(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(text)
    }

    fn success(self) -> Answer {
        Answer::Success(Success {
            at: now(),
            call: call_of(&self.body),
            is_replay: self.is_replay,
            bytes: [self.head.join("\r\n").as_bytes(), b"\r\n\r\n", &self.body].concat(),
        })
    }

    fn text(&self) -> String {
        let head = self.head.join("\n");
        format!("{head}\n{}", String::from_utf8_lossy(&self.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_was_cut_off_is_a_lost_connection() {
        let whole = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\ndate: today\r\n\r\nok";
        assert_eq!(Response::read(whole).map(|read| read.status), Some(201));
        for end in 0..whole.len() {
            assert!(Response::read(&whole[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn the_date_and_the_marker_do_not_count_as_bytes_of_a_response() {
        let read = |text: &str| match Response::read(text.as_bytes()).map(Response::success) {
            Some(Answer::Success(success)) => success,
            other => panic!("{other:?}"),
        };
        let first = read("HTTP/1.1 201 Created\r\ndate: 1\r\nlink: a\r\n\r\n7.");
        let replay = read(
            "HTTP/1.1 201 Created\r\nIdempotency-Replayed: true\r\nlink: a\r\ndate: 2\r\n\r\n7.",
        );
        assert_eq!(first.bytes, replay.bytes);
        assert_eq!((first.is_replay, replay.is_replay), (false, true));
        assert_eq!(first.call, Some(crate::history::Call::of(7)));
        let other = read("HTTP/1.1 201 Created\r\nlink: b\r\ndate: 2\r\n\r\n7.");
        assert_ne!(first.bytes, other.bytes);
    }

    #[test]
    fn the_loss_of_a_lease_says_no_time() {
        let text = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/problem+json\r\n\r\n\
            {\"code\":\"lease_lost\",\"retryable\":false}";
        let lost = Response::read(text.as_bytes()).expect("a response");
        assert!(lost.is_problem("lease_lost") && !lost.is_refusal("lease_lost"));
        let other = Response::read(text.replace("lease_lost", "handler").as_bytes());
        assert!(!other.expect("a response").is_problem("lease_lost"));
    }

    #[test]
    fn a_refusal_is_a_problem_that_says_when_to_come_back() {
        const WHOLE: &str = "HTTP/1.1 503 Service Unavailable\r\n\
            content-type: application/problem+json\r\nretry-after: 1\r\n\r\n\
            {\"code\":\"store_unavailable\",\"retryable\":true}";
        let is_refusal = |text: &str| {
            let response = Response::read(text.as_bytes()).expect("a response");
            response.is_refusal("store_unavailable")
        };
        assert!(is_refusal(WHOLE));
        for (part, other) in [
            ("retry-after: 1", "retry-after: 0"),
            ("retry-after: 1", "x-order: 1"),
            ("problem+json", "json"),
            ("store_unavailable", "in_progress"),
            ("true", "false"),
            (
                "retry-after: 1",
                "retry-after: 1\r\nidempotency-replayed: true",
            ),
        ] {
            assert!(!is_refusal(&WHOLE.replace(part, other)), "{other}");
        }
    }
}
