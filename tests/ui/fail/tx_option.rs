use idempotence::{Error, idempotent};

struct Transaction;

#[idempotent(key = "id", ttl = "30s", tx = txn)]
async fn misspelt(tx: &mut Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = transaction)]
async fn not_there(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = tx)]
async fn by_value(tx: Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = tx)]
async fn pattern((tx, id): (&mut Transaction, u64)) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = "tx")]
async fn quoted(tx: &mut Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

struct Service {
    tx: Transaction,
}

impl Service {
    #[idempotent(key = "id", ttl = "30s", tx = self.tx)]
    async fn field(&mut self, id: u64) -> Result<(), Error> {
        Ok(())
    }

    #[idempotent(key = "id", ttl = "30s", tx = self)]
    async fn itself(&mut self, id: u64) -> Result<(), Error> {
        Ok(())
    }
}

fn main() {}
