use idempotence::{Error, idempotent};

struct Upload {
    file: Vec<u8>,
}

#[idempotent(key = "upload", ttl = "30s")]
async fn structure(upload: Upload) -> Result<(), Error> {
    drop(upload.file);
    Ok(())
}

#[idempotent(key = (id), ttl = "30s")]
async fn generic<T>(id: T) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (), ttl = "30s", payload = "upload")]
async fn payload(upload: Upload) -> Result<(), Error> {
    drop(upload.file);
    Ok(())
}

fn main() {}
