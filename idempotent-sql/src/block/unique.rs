//! Whether a table has a unique index on the columns of a key.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use sqlx::Error;

use crate::database::Database;

/// The tables and keys that have been asked for, as [`names`] and the database.
static ASKED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Refuses a key without a unique index: equal rows would all be inserted. Asks once in a process for each table and key, in one
/// round trip.
pub(super) async fn check<DB: Database>(
    connection: &mut DB::Connection,
    table: &str,
    columns: impl Iterator<Item = &str> + Clone,
) -> sqlx::Result<()> {
    let key = names(columns.clone());
    let asked = format!("{} {table} {key}", DB::NAME);
    if with_asked(|all| all.contains(&asked)) {
        return Ok(());
    }
    let query = DB::without_unique_index(table, &key);
    if DB::fetch_optional(connection, query).await?.is_some() {
        let columns = columns.collect::<Vec<_>>().join(", ");
        return Err(Error::InvalidArgument(format!(
            "{table:?} has no unique index on the key ({columns}) or on a part of it, so equal rows would all be inserted: \
             make one, as in `CREATE UNIQUE INDEX … ON {table} ({columns})`"
        )));
    }
    with_asked(|all| all.insert(asked));
    Ok(())
}

/// The names in small letters, each between two separators.
fn names<'a>(columns: impl Iterator<Item = &'a str>) -> String {
    let mut names = "\u{1f}".to_owned();
    for column in columns {
        names.push_str(&column.to_lowercase());
        names.push('\u{1f}');
    }
    names
}

fn with_asked<T>(use_them: impl FnOnce(&mut HashSet<String>) -> T) -> T {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    use_them(asked.get_or_insert_default())
}
