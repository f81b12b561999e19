use super::*;

#[path = "../begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "../suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
