use std::fmt::Display;

use idempotence::idempotent;

struct Reply;

#[idempotent(key = "id", ttl = "30s")]
async fn number(id: u64) -> u64 {
    id
}

#[idempotent(key = "id", ttl = "30s")]
async fn structure(id: u64) -> Reply {
    Reply
}

#[idempotent(key = "id", ttl = "30s")]
async fn option(id: u64) -> Option<u64> {
    Some(id)
}

#[idempotent(key = "id", ttl = "30s")]
async fn opaque(id: u64) -> impl Display {
    id
}

#[idempotent(key = "id", ttl = "30s")]
async fn nothing(id: u64) {
    drop(id);
}

fn main() {}
