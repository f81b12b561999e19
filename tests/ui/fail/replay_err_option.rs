use idempotence::{Error, idempotent};
use serde::{Deserialize, Serialize};

struct Declined;

impl From<Error> for Declined {
    fn from(_: Error) -> Self {
        Self
    }
}

#[derive(Serialize, Deserialize)]
struct Refused {
    code: u16,
}

impl From<Error> for Refused {
    fn from(_: Error) -> Self {
        Self { code: 409 }
    }
}

#[idempotent(key = "id", ttl = "1d", replay = true, replay_err = |_| true)]
async fn unserializable(id: u64) -> Result<u64, Declined> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1d", replay = true, replay_err = true)]
async fn value(id: u64) -> Result<u64, Refused> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1d", replay = true, replay_err = |error| error.code)]
async fn wrong_type(id: u64) -> Result<u64, Refused> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1d", replay = true, replay_err = |error| error.code > least)]
async fn capturing(id: u64, least: u16) -> Result<u64, Refused> {
    Ok(id)
}

fn main() {}
