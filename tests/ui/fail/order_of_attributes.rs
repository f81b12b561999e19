use idempotence::{Error, idempotent};

#[tokio::main(flavor = "current_thread")]
#[idempotent(key = (), ttl = "30s")]
async fn below() -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (), ttl = "30s")]
#[tokio::main(flavor = "current_thread")]
async fn above() -> Result<(), Error> {
    Ok(())
}

fn main() {
    let _results = (below(), above());
}
