use idempotence::idempotent;

#[derive(Debug)]
enum AppError {
    NotFound,
}

#[idempotent(key = "id", ttl = "30s")]
async fn create(id: u64) -> Result<(), AppError> {
    Err(AppError::NotFound)
}

fn main() {}
