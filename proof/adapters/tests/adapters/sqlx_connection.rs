//! sqlx 0.9, the control of the suite.

use sqlx as library;

#[path = "sqlx_session.rs"]
#[allow(clippy::duplicate_mod)]
mod session;

fn statement(text: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(text.to_owned())
}
