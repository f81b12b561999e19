use super::*;

#[path = "../suite_on_servers.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::MySql;
