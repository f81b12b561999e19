//! Claims with a fence in MySQL and MariaDB: in several steps, because no statement inserts two different rows.

use sqlx::MySql;

use crate::sql::database::fencing::Fencing;

impl Fencing for MySql {}
