use idempotence::{Error, idempotent};

struct Upload {
    file: File,
}

struct File;

#[idempotent(key = "user_id, upload", ttl = "30s")]
async fn argument(user_id: u64, upload: &Upload) -> Result<(), Error> {
    drop(&upload.file);
    Ok(())
}

#[idempotent(key = "user_id, upload.file", ttl = "30s")]
async fn field(user_id: u64, upload: &Upload) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (user_id, upload.file), ttl = "30s")]
async fn expression(user_id: u64, upload: &Upload) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "user_id", ttl = "30s", payload = "user_id, file")]
async fn pattern(user_id: u64, Upload { file }: Upload) -> Result<(), Error> {
    Ok(())
}

fn main() {}
