//! Lists the records of a table, by its primary key.

use std::time::Duration;

use idempotent_runtime::store::{Cursor, Listed, Page, StoreError, StoreErrorKind};
use sqlx::Pool;

use super::attempts::Attempts;
use crate::database::Database;

/// The most rows of a page.
const MOST: usize = 1000;

/// Lists the records with this prefix: reads the keys from `after` on, whose text is the first key of the page. Costs one statement,
/// which reads at most `most` rows and one more, also if they have expired, and another if some of their keys are not UTF-8.
pub(super) async fn list<DB: Database>(
    pool: &Pool<DB>,
    prefix: &str,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Page, StoreError> {
    let first = after.map_or(prefix, Cursor::as_str);
    if !first.starts_with(prefix) {
        let text = "the cursor of the listing is not of this store";
        return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
    }
    let most = most.clamp(1, MOST);
    let limit = i64::try_from(most + 1).unwrap_or(i64::MAX);
    let mut attempts = Attempts::new(pool);
    let (mut first, mut listed) = (first.as_bytes().to_vec(), Vec::new());
    loop {
        let mut connection = attempts.acquire().await?;
        let rows = DB::list(&mut connection, &first, limit).await;
        let Some(rows) = attempts.resolve(connection, rows.map(Some))? else {
            continue;
        };
        let is_last = rows.len() <= most;
        if let Some((last, _, _)) = rows.last() {
            // The least key after it.
            first = [last, &b"\0"[..]].concat();
        }
        // A key that is not UTF-8 is of another program.
        listed.extend(rows.into_iter().filter_map(|(key, head, remaining)| {
            Some((String::from_utf8(key).ok()?, head, remaining))
        }));
        if is_last || listed.len() > most {
            break;
        }
    }
    // The keys with the prefix follow each other.
    let mut rows = listed
        .into_iter()
        .take_while(|(key, _, _)| key.starts_with(prefix));
    let page = rows.by_ref().take(most);
    let records = page.filter_map(|(key, head, remaining)| {
        let remaining = u64::try_from(remaining).ok().filter(|micros| *micros > 0)?;
        Some(Listed {
            key,
            head: head.into(),
            ttl: Some(Duration::from_micros(remaining)),
        })
    });
    let records = records.collect();
    let next = rows.next().map(|(key, _, _)| Cursor::new(key));
    Ok(Page { records, next })
}
