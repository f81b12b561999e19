//! Claims with a fence in SQLite: in several steps, because no statement inserts two different rows.

use sqlx::Sqlite;

use crate::sql::database::fencing::Fencing;

impl Fencing for Sqlite {}
