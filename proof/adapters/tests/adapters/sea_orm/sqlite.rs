use super::*;

#[path = "../suite.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Sqlite;
