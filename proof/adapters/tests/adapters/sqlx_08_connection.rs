//! sqlx 0.8.

use sqlx_08 as library;

#[path = "sqlx_session.rs"]
#[allow(clippy::duplicate_mod)]
mod session;

fn statement(text: &str) -> &str {
    text
}
