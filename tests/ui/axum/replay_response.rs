use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use idempotence::{Error, Once, idempotent};

struct Receipt;

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn whole(id: u64) -> Result<Response, Error> {
    Ok(Response::default())
}

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn once(id: u64) -> Result<Once<Response>, Error> {
    Ok(Once::Executed(Response::default()))
}

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn with_a_status(id: u64) -> Result<(StatusCode, Response), Error> {
    Ok((StatusCode::CREATED, Response::default()))
}

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn without_serde(id: u64) -> Result<(StatusCode, HeaderMap, Json<Receipt>), Error> {
    Ok((StatusCode::CREATED, HeaderMap::new(), Json(Receipt)))
}

fn main() {}
