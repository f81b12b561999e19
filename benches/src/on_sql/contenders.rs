//! The contenders: the attribute and the same by hand, with and without a transaction.

use std::time::Duration;

use idempotence::Idempotency;
use idempotence::sql::Database;
use idempotence::sql::sqlx::Pool;
use tokio::time::timeout;

use super::statements::{Statements, WEEK, number};
use crate::upload::Upload;
use crate::{key, owner};

/// The length of a record of the crate. It differs by a few bytes between hosts.
pub(super) const RECORD_LEN: usize = 120;

/// Before the keys by hand, as before those of the crate. So each contender inserts as far into its table, between as many
/// other rows.
const PREFIX: &str = "idem:";

/// The same of a row in a transaction.
pub(super) const PREFIX_IN_TX: &str = "idem:#tx:";

/// How long a key is taken, in microseconds: the lease of the attribute and its grace.
const EXPIRY: i64 = 33_000_000;

/// How long a statement by hand may take, and the wait for its connection.
const DEADLINE: Duration = Duration::from_secs(10);

/// Inserts a row unless a live row exists, and removes it by its owner. The sessions of the pool set the timeouts of locks.
pub(super) struct ByHand<DB: Database> {
    pub(super) pool: Pool<DB>,
    /// Fills the value up to the length of a record of the crate.
    pub(super) rest: String,
}

impl<DB: Database> Clone for ByHand<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            rest: self.rest.clone(),
        }
    }
}

impl<DB: Statements> Upload for ByHand<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = PREFIX.to_owned() + &key(":", user_id, &file_md5);
        let value = owner() + &self.rest;
        let put = timeout(DEADLINE, async {
            let mut connection = self.pool.acquire().await.expect("a connection");
            DB::put_row(&mut connection, &key, value.as_bytes(), EXPIRY).await
        });
        assert_eq!(put.await, Ok(1), "the key is taken");
        let outcome = file_md5.len();
        let remove = timeout(DEADLINE, async {
            let mut connection = self.pool.acquire().await.expect("a connection");
            DB::delete_row(&mut connection, &key, value.as_bytes()).await
        });
        assert_eq!(remove.await, Ok(1), "the caller owns the key");
        outcome
    }
}

/// The deduplication row in a transaction, by hand.
pub(super) struct InHand<DB: Database>(pub(super) ByHand<DB>);

impl<DB: Database> Clone for InHand<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<DB: Statements> Upload for InHand<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let mut tx = self.0.pool.begin().await.expect("a transaction");
        let key = PREFIX_IN_TX.to_owned() + &key(":", user_id, &file_md5);
        let value = owner() + &self.0.rest;
        let micros = i64::try_from(WEEK.as_micros()).expect("a few digits");
        let put = DB::put_row(&mut tx, &key, value.as_bytes(), micros).await;
        assert_eq!(put, 1, "the order is made");
        DB::order(&mut tx, &number(user_id)).await;
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}

/// The deduplication row in a transaction, by a guarded call.
pub(super) struct Guarded<DB: Database>(pub(super) Pool<DB>, pub(super) Idempotency);

impl<DB: Database> Clone for Guarded<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1.clone())
    }
}

impl<DB: Statements> Upload for Guarded<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let mut tx = self.0.begin().await.expect("a transaction");
        DB::guarded(&self.1, &mut tx, user_id, &file_md5).await;
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}
