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

/// Makes a test on a fresh database of each kind.
macro_rules! on_all_databases {
    ($($test:ident),+ $(,)?) => {
        crate::lock::on_all_databases!(@ postgres, sqlx::Postgres, $($test),+);
        crate::lock::on_all_databases!(@ mariadb, sqlx::MySql, $($test),+);
        crate::lock::on_all_databases!(@ sqlite, sqlx::Sqlite, $($test),+);
    };
    (@ $name:ident, $database:ty, $($test:ident),+) => {
        mod $name {
            use idempotent_runtime::sql::sqlx;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(crate::lock::databases::fresh::<$database>().await).await;
                }
            )+
        }
    };
}

pub(crate) use on_all_databases;
