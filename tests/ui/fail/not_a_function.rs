use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s")]
struct Upload {
    id: u64,
}

trait Service {
    #[idempotent(key = "id", ttl = "30s")]
    async fn upload(&self, id: u64) -> Result<(), Error>;
}

#[idempotent(key = "id", ttl = "30s")]
impl Upload {
    async fn save(&self) {}
}

#[idempotent(key = "id", ttl = "30s")]
mod uploads {}

#[idempotent(key = "id", ttl = "30s")]
enum Kind {}

#[idempotent(key = "id", ttl = "30s")]
const LIMIT: u64 = 7;

fn main() {
    let _upload = Upload { id: 1 };
}
