use idempotence::{Idempotency, MemoryStore, Settings};

fn main() {
    let settings = Settings::file("idempotence.toml");
    drop(Idempotency::builder(MemoryStore::new()).settings(settings));
}
