use idempotence::{Error, Outcome, idempotent};

struct Status(u16);

impl Outcome for Status {
    fn refused(_: Error) -> Self {
        Self(409)
    }

    fn is_success(&self) -> bool {
        self.0 < 400
    }
}

#[idempotent(key = "id", ttl = "1d", hold_err = "timeout")]
async fn value(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1d", tx = tx, hold_err = Error::is_unavailable)]
async fn in_tx(tx: &mut Vec<u8>, id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1d", hold_err = |_: &Error| true)]
async fn not_a_result(id: u64) -> Status {
    Status(200)
}

#[idempotent(key = "id", ttl = "1d", hold_err = |error| error.code())]
async fn wrong_type(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
