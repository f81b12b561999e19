//! Many changes with one commit in SQLite.

use idempotent_driver::port::BEGIN_TO_WRITE;
use sqlx::{Connection as _, Sqlite, SqliteConnection, query_scalar};

use crate::database::batch::{Batch, ChangeRequest, Failed, Found, Stage};

/// A transaction takes the write lock of the file when it begins, so no other process changes anything until the commit.
impl Batch for Sqlite {
    /// Only one connection at a time writes to a file.
    const INLINE: usize = 1;

    async fn change_many(
        connection: &mut SqliteConnection,
        requests: &[&ChangeRequest],
        most: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        match change_all(connection, requests, most).await {
            Err(failed) => Err(Failed {
                is_unusable: has_lost_transaction(connection).await,
                ..failed
            }),
            found => found,
        }
    }
}

/// Sends each change as its own statement, all in one transaction.
async fn change_all(
    connection: &mut SqliteConnection,
    requests: &[&ChangeRequest],
    most: i32,
) -> Result<Vec<Option<Found>>, Failed> {
    let begun = connection.begin_with(BEGIN_TO_WRITE).await;
    let mut transaction = begun.map_err(|error| Stage::Begin.failed(error))?;
    let mut found = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        match request.send::<Sqlite>(&mut transaction, most).await {
            Ok(what) => found.push(what),
            Err(error) => {
                // A failed rollback is repeated when the transaction is dropped.
                let _ = transaction.rollback().await;
                return Err(Stage::Change(at).failed(error));
            }
        }
    }
    let committed = transaction.commit().await;
    committed.map_err(|error| Stage::Commit.failed(error))?;
    Ok(found)
}

/// Whether the client counts a transaction that the database has ended by itself, as it does if the disk is full. Then no later
/// transaction on this connection commits. A database in memory would end with its connection, so it keeps the connection.
async fn has_lost_transaction(connection: &mut SqliteConnection) -> bool {
    let file = query_scalar("SELECT file FROM pragma_database_list WHERE name = 'main'");
    // The client has tried to end its transaction before it sends this.
    let file: sqlx::Result<Option<String>> = file.fetch_one(&mut *connection).await;
    let is_file = file.map_or(true, |file| file.is_some_and(|file| !file.is_empty()));
    is_file && connection.is_in_transaction()
}
