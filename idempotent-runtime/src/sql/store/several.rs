//! Claims of several keys by one statement.

use std::time::Duration;

use bytes::Bytes;
use sqlx::Pool;

use super::attempts::Attempts;
use crate::sql::database::Database;
use crate::sql::database::records;
use crate::sql::database::time::micros;
use crate::sql::failure;
use crate::store::{ClaimAll, StoreError, StoreErrorKind};

/// Claims all keys or none. If the statement claims none, one more statement for each key looks for the first key that has another
/// record, of which it reads the first `most` bytes.
pub(super) async fn claim<DB: Database>(
    pool: &Pool<DB>,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
    most: i32,
) -> Result<ClaimAll, StoreError> {
    let mut attempts = Attempts::new(pool);
    loop {
        let mut connection = attempts.acquire().await?;
        let answer = send::<DB>(&mut connection, claims, micros(ttl), most).await;
        let is_unclear = attempts.may_be_applied() && matches!(answer, Ok(ClaimAll::NotTogether));
        if let Some(answer) = attempts.resolve(connection, answer.map(Some))? {
            if is_unclear {
                let what = "an attempt without an answer may still be applied";
                return Err(StoreError::new(StoreErrorKind::Unknown, what)
                    .reason("did not answer the claim of several keys")
                    .place(failure::place(pool)));
            }
            return Ok(answer);
        }
    }
}

/// If no key has another record afterwards, the caller claims one key after another.
async fn send<DB: Database>(
    connection: &mut DB::Connection,
    claims: &[(&str, &Bytes)],
    micros: i64,
    most: i32,
) -> sqlx::Result<ClaimAll> {
    if DB::claim_all(connection, claims, micros).await? {
        return Ok(ClaimAll::Claimed);
    }
    let mut own = 0;
    for (at, (key, value)) in claims.iter().enumerate() {
        match records::get::<DB>(connection, key, most).await? {
            Some((stored, _)) if stored != **value => return Ok(ClaimAll::Taken(at, stored)),
            Some(_) => own += 1,
            None => {}
        }
    }
    if own == claims.len() {
        return Ok(ClaimAll::Claimed);
    }
    Ok(ClaimAll::NotTogether)
}
