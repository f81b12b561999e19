//! `migrate` and `purge`: the tables of a database.

use idempotence::{MySqlStore, PostgresStore, SqliteStore};

use crate::args::Access;
use crate::exit::Failure;
use crate::open::{as_it_is, url};
use crate::output::Output;

/// Runs `$work` on the store of the database that the URL names.
macro_rules! on_database {
    ($url:expr, |$store:ident| $work:expr) => {
        match $url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "postgres" | "postgresql" => {
                let $store = PostgresStore::connect($url).await?.purge(false);
                Ok($work)
            }
            "mysql" | "mariadb" => {
                let $store = MySqlStore::connect($url).await?.purge(false);
                Ok($work)
            }
            "sqlite" => {
                let $store = SqliteStore::connect($url).await?.purge(false);
                Ok($work)
            }
            _ => Err(Failure::usage(
                "only a database has tables; Redis removes expired records itself",
            )),
        }
    };
}

pub(crate) async fn migrate(access: &Access, output: &mut Output) -> Result<(), Failure> {
    let url = url(access)?;
    on_database!(&url, |store| store.migrate().await?)?;
    if output.is_json() {
        return output.json(&serde_json::json!({ "migrated": true }));
    }
    output.line("the tables are up to date")
}

pub(crate) async fn purge(access: &Access, output: &mut Output) -> Result<(), Failure> {
    let url = as_it_is(&url(access)?);
    let removed = on_database!(&url, |store| store.purge_expired().await?)?;
    if output.is_json() {
        return output.json(&serde_json::json!({ "removed": removed }));
    }
    output.line(&format!("removed {removed} expired records"))
}
