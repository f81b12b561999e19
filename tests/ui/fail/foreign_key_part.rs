use std::net::TcpStream;
use std::time::Instant;

use idempotence::{Error, idempotent};

#[idempotent(key = "at", ttl = "30s")]
async fn argument(at: Instant) -> Result<(), Error> {
    Ok(())
}

struct Request<'a> {
    stream: &'a TcpStream,
}

#[idempotent(key = "request.stream", ttl = "30s")]
async fn field(request: Request<'_>) -> Result<(), Error> {
    Ok(())
}

fn main() {}
