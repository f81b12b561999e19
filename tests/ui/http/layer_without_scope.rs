use idempotence::http::IdempotencyLayer;
use idempotence::{Idempotency, MemoryStore};

fn layer() -> IdempotencyLayer {
    let idempotency = Idempotency::new(MemoryStore::new());
    IdempotencyLayer::builder(&idempotency).require_key().build()
}

fn main() {}
