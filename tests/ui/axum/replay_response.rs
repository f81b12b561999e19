use axum::Json;
use axum::http::StatusCode;
use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn with_a_status(id: u64) -> Result<(StatusCode, Json<u64>), Error> {
    Ok((StatusCode::CREATED, Json(id)))
}

fn main() {}
