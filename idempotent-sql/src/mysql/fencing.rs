//! Claims with a fence in MySQL and MariaDB: in several steps. A statement that reads a row and inserts two rows would lock the
//! gaps between rows, so claims at the same time would be deadlocks.

use sqlx::MySql;

use crate::database::fencing::Fencing;

impl Fencing for MySql {}
