use std::io;

use idempotence::idempotent;

#[idempotent(key = "id", ttl = "30s")]
async fn string(id: u64) -> Result<(), String> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s")]
async fn text(id: u64) -> Result<(), &'static str> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s")]
async fn io_error(id: u64) -> io::Result<()> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s")]
async fn unit(id: u64) -> Result<u64, ()> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s")]
async fn boxed(id: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", error = |error| error.to_string())]
async fn converted(id: u64) -> Result<(), String> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", error = io::Error::other)]
async fn converted_by_path(id: u64) -> io::Result<()> {
    Ok(())
}

fn main() {}
