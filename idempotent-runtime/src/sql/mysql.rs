//! What is said to MySQL and MariaDB.

mod records;
mod rows;
