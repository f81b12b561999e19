//! Tests of the private Redis servers.

mod cluster;
mod proxy;
mod sentinel;
mod server;
mod tls;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Sends a question to the server at this port; `None` if nothing answers.
fn ask(port: u16, question: &str) -> Option<String> {
    ask_for(Duration::from_mins(1), port, question)
}

/// Like [`ask`], and waits so long for the answer.
fn ask_for(wait: Duration, port: u16, question: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(wait)).ok()?;
    stream
        .write_all(format!("{question}\r\n").as_bytes())
        .ok()?;
    let mut answer = [0; 100];
    let length = stream.read(&mut answer).ok()?;
    Some(
        String::from_utf8_lossy(&answer[..length])
            .trim_end()
            .to_owned(),
    )
}
