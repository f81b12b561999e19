//! MySQL and MariaDB make each change by itself.

use sqlx::MySql;

use crate::sql::database::batch::Batch;

impl Batch for MySql {
    const SENDS_BATCHES: bool = false;
}
