use idempotence::{Error, idempotent};

struct Upload {
    file_md5: String,
}

#[idempotent(key = "request.fil_md5", ttl = "30s")]
async fn string(request: Upload) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (request.fil_md5), ttl = "30s")]
async fn tokens(request: Upload) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (), ttl = "30s", payload = "request.fil_md5")]
async fn payload(request: Upload) -> Result<(), Error> {
    Ok(())
}

fn main() {}
