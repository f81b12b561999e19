//! Drivers for the transactions of libraries.

mod sqlx;
