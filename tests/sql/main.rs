//! The SQL stores, locks and calls in the caller's transaction, on private servers and in temporary files.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

/// Makes a test of each case on each database. A case is an async function that is generic over a kind of database.
macro_rules! on_every_database {
    ($($case:ident)*) => {
        on_every_server! { $($case)* }
        on_every_database! { @on sqlite Sqlite $($case)* }
    };
    (@on $name:ident $Database:ident $($case:ident)*) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case::<sqlx::$Database>().await;
                }
            )*
        }
    };
}

/// Makes a test of each case on each database that has a server.
macro_rules! on_every_server {
    ($($case:ident)*) => {
        on_every_database! { @on postgres Postgres $($case)* }
        on_every_database! { @on mariadb MySql $($case)* }
    };
}

#[cfg(target_os = "linux")]
mod clock;
mod crash;
mod layers;
mod lock;
mod measure;
mod retry;
mod store;
mod tx;
