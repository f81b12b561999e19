//! The statement that claims a key with a fence.

use std::future::{Future, ready};
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::port::sql::{fence_ttl, micros};

/// A claim with a fence. Times to live are in microseconds by the database's clock.
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "MySQL has no statement")
)]
#[derive(Debug)]
pub struct FencedRequest<'a> {
    pub(crate) key: &'a str,
    pub(crate) fence_key: &'a str,
    pub(crate) value: &'a [u8],
    pub(crate) micros: i64,
    /// How long the number is stored.
    pub(crate) fence_micros: i64,
}

impl<'a> FencedRequest<'a> {
    pub(crate) fn new([key, fence_key]: [&'a str; 2], value: &'a [u8], ttl: Duration) -> Self {
        Self {
            key,
            fence_key,
            value,
            micros: micros(ttl),
            fence_micros: micros(fence_ttl(ttl)),
        }
    }
}

/// The statement that claims with a fence, in a database that has one.
pub trait Fencing: sqlx::Database {
    /// Whether there is a statement. Without it a claim with a fence takes several.
    const HAS_STATEMENT: bool = false;

    /// Claims a key, and returns the record that is stored under `fence_key` afterwards: with a number of
    /// this claim, or unchanged if it is not the record of a fence. `None` if another record has the key.
    fn claim_fenced(
        connection: &mut Self::Connection,
        request: &FencedRequest<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<Bytes>>> + Send {
        let _ = (connection, request);
        ready(Ok(None))
    }
}
