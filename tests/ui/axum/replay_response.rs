use idempotence::{Error, idempotent};

/// Like `axum::http::StatusCode`, which `serde` does not know.
struct StatusCode(u16);

/// Like `axum::Json`.
struct Json<T>(T);

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn with_a_status(id: u64) -> Result<(StatusCode, Json<u64>), Error> {
    Ok((StatusCode(201), Json(id)))
}

fn main() {}
