//! The lock in a table, on all three databases.

mod broken;
mod commits;
mod databases;
mod expiry;
mod fences;
mod killed;
mod names;
mod races;
mod sessions;
mod waiting;
