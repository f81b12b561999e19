use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", release = "true", on_cancel = "finnish", on_lease_lost = stop)]
async fn words(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", release = "on_eror", renew = "false", on_store_error = "fail")]
async fn other_words(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", release = always, crate = "idempotence", on_store_error = 3)]
async fn no_words(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", release = "on-error", renew = true, on_cancel = true)]
async fn hyphen(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", replay = "true")]
async fn quoted_replay(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", replay = REPLAY, replay_err = |error| error.is_duplicate())]
async fn replay_not_bool(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
