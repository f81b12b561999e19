//! MySQL and MariaDB make each change by itself.

use sqlx::{MySql, MySqlConnection};

use crate::sql::database::batch::{Batch, Failed, Found, Request, one_transaction};

impl Batch for MySql {
    const SENDS_BATCHES: bool = false;

    async fn change_many(
        connection: &mut MySqlConnection,
        requests: &[&Request],
        most: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        one_transaction::<Self>(connection, requests, most).await
    }
}
