use super::*;

#[path = "../begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "../suite.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Sqlite;
