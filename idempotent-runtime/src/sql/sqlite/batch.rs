//! Many changes with one commit in SQLite.

use sqlx::{Sqlite, SqliteConnection};

use crate::sql::database::batch::{Batch, Failed, Found, Request, one_transaction};

/// A transaction takes the write lock of the file when it begins, so no other process changes anything until the commit.
impl Batch for Sqlite {
    /// Only one connection at a time writes to a file.
    const INLINE: usize = 1;

    async fn change_many(
        connection: &mut SqliteConnection,
        requests: &[&Request],
        most: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        one_transaction::<Self>(connection, requests, most).await
    }
}
