//! A client that costs little: HTTP/1.1 on an open connection, and only the parts of a response that the benchmark checks.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::handler::BODY;

/// A connection that stays open.
pub(super) struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a TCP connection");
        Self {
            stream,
            request: Vec::with_capacity(1024),
            response: Vec::with_capacity(4096),
        }
    }

    /// Sends a request and reads its response. Returns whether it is a replay.
    pub(super) async fn post(&mut self, key: &str) -> bool {
        let length = BODY.len();
        self.request.clear();
        for part in [
            "POST /payments HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: \"",
            key,
            &format!("\"\r\ncontent-length: {length}\r\n\r\n"),
            BODY,
        ] {
            self.request.extend_from_slice(part.as_bytes());
        }
        let written = self.stream.write_all(&self.request).await;
        written.expect("the connection is open");
        let head = self.read().await;
        let head = str::from_utf8(&self.response[..head]).expect("ASCII");
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        head.contains("idempotency-replayed: true") || head.contains("idempotent-replayed: true")
    }

    /// Reads one response. Returns the length of its head.
    async fn read(&mut self) -> usize {
        self.response.clear();
        let mut end = None;
        loop {
            let read = self.stream.read_buf(&mut self.response).await;
            assert_ne!(
                read.expect("the connection is open"),
                0,
                "the server closed it"
            );
            if end.is_none() {
                end = head_end(&self.response);
            }
            if let Some((head, length)) = end
                && self.response.len() >= head + length
            {
                assert_eq!(self.response.len(), head + length, "one response");
                return head;
            }
        }
    }
}

/// The lengths of the head and the body.
fn head_end(response: &[u8]) -> Option<(usize, usize)> {
    let head = response.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&response[..head]).expect("ASCII");
    let length = text.split_once("content-length: ").expect("a length").1;
    let length = length.split_once('\r').expect("a line").0;
    Some((head, length.parse().expect("a number")))
}
