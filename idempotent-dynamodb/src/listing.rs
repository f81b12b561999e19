//! Lists records by scans of the table.

use bytes::Bytes;
use idempotent_runtime::store::{Cursor, LISTED_BYTES, Listed, Page, StoreError};

use crate::records::{ID, Item, Records, live, text};

/// The most items that a page reads: their whole records are sent.
const MOST: usize = 100;

/// Reads a page of the table, with the records whose keys begin with `prefix`. A cursor is the last key of the page before.
pub(crate) async fn list(
    records: &Records,
    prefix: &str,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Page, StoreError> {
    let mut scan = records
        .client
        .scan()
        .table_name(&records.table)
        .consistent_read(true)
        .limit(i32::try_from(most.clamp(1, MOST)).unwrap_or(1));
    if !prefix.is_empty() {
        scan = scan
            .filter_expression("begins_with(id, :prefix)")
            .expression_attribute_values(":prefix", text(prefix));
    }
    if let Some(cursor) = after {
        scan = scan.exclusive_start_key(ID, text(cursor.as_str()));
    }
    let page = scan.send().await.map_err(|error| records.error(&error))?;
    let now = records.now().await?;
    let key_of = |item: &Item| item.get(ID).and_then(|id| id.as_s().ok()).cloned();
    let listed = page.items().iter().filter_map(|item| {
        let (key, found) = (key_of(item)?, live(item, now)?);
        let head = Bytes::copy_from_slice(&found.value[..found.value.len().min(LISTED_BYTES)]);
        let ttl = found.ttl;
        Some(Listed { key, head, ttl })
    });
    let next = page.last_evaluated_key().and_then(key_of).map(Cursor::new);
    Ok(Page {
        records: listed.collect(),
        next,
    })
}
