use super::*;

#[path = "../suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
