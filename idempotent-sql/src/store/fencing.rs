//! Claims with a fence by one statement.

use std::time::Duration;

use idempotent_driver::port::failure;
use idempotent_runtime::port::sql::{foreign_fence, read_fence};
use idempotent_runtime::store::{FencedClaim, StoreError};
use sqlx::Pool;

use super::attempts::Attempts;
use crate::database::Database;
use crate::database::fencing::FencedRequest;
use crate::database::records;

/// Claims the first key and draws its number under the second. If another record has the key, a second statement reads its first `most` bytes.
pub(super) async fn claim<DB: Database>(
    pool: &Pool<DB>,
    keys: [&str; 2],
    value: &[u8],
    ttl: Duration,
    most: i32,
) -> Result<FencedClaim, StoreError> {
    let request = FencedRequest::new(keys, value, ttl);
    let mut attempts = Attempts::new(pool);
    loop {
        let mut connection = attempts.acquire().await?;
        let found = send::<DB>(&mut connection, &request, most).await;
        if let Some(found) = attempts.resolve(connection, found)? {
            return found.map_err(|error| error.place(failure::place(pool)));
        }
    }
}

/// `None`: the record changed between the two statements.
async fn send<DB: Database>(
    connection: &mut DB::Connection,
    request: &FencedRequest<'_>,
    most: i32,
) -> sqlx::Result<Option<Result<FencedClaim, StoreError>>> {
    let Some(record) = DB::claim_fenced(connection, request).await? else {
        let stored = records::get::<DB>(connection, request.key, most).await?;
        return Ok(stored.map(|(stored, _)| Ok(FencedClaim::Taken(stored))));
    };
    if let Some(fence) = read_fence(&record, request.value) {
        return Ok(Some(Ok(FencedClaim::Claimed(fence))));
    }
    // The claim is stored, but the record of its number is not a fence.
    records::remove::<DB>(connection, request.key, request.value).await?;
    Ok(Some(Err(foreign_fence())))
}
