//! Lists records by ranges of keys.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures_util::future::try_join_all;
use idempotent_runtime::store::{Cursor, LISTED_BYTES, Listed, Page, StoreError, StoreErrorKind};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::records::Records;
use crate::wire::Range;

/// The most records on a page: their whole values are sent.
const MOST: usize = 40;

/// Reads a range of keys. A cursor is the last key of the page before, whose bytes need not be text. Costs a round trip for the page, and
/// one for each lease on it, at once.
pub(crate) async fn list(
    records: &Records,
    prefix: &str,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Page, StoreError> {
    // The first key after a key is the key with a zero byte, and a lone zero byte is before all keys.
    let mut from = prefix.as_bytes().to_vec();
    if let Some(cursor) = after {
        from = percent_decode_str(cursor.as_str()).collect();
        if !from.starts_with(prefix.as_bytes()) {
            let what = "the cursor is of another listing";
            let error = StoreError::new(StoreErrorKind::Misconfigured, what);
            let error = error.reason("did not make this cursor");
            return Err(error.place(records.place()));
        }
    }
    if after.is_some() || from.is_empty() {
        from.push(0);
    }
    let range = Range {
        key: from.into(),
        end: end_of(prefix.as_bytes()).into(),
        limit: i64::try_from(most.clamp(1, MOST)).unwrap_or(1),
        ..Range::default()
    };
    let reply = records.client.call(range).await;
    let reply = reply.map_err(|status| records.error(&status))?;
    let last = reply.kvs.last().filter(|_| reply.more);
    let next = last.map(|last| percent_encode(&last.key, NON_ALPHANUMERIC).to_string());
    let leases: HashSet<_> = reply.kvs.iter().map(|found| found.lease).collect();
    let remaining = leases.into_iter().map(async |lease| {
        let remaining = records.remaining(lease).await?;
        Ok::<_, StoreError>((lease, remaining))
    });
    let remaining: HashMap<_, _> = try_join_all(remaining).await?.into_iter().collect();
    let listed = reply.kvs.into_iter().filter_map(|found| {
        // A key that is not UTF-8 is of another program.
        let key = String::from_utf8(found.key.into()).ok()?;
        let ttl = remaining.get(&found.lease).copied().flatten()?;
        let head = &found.value[..found.value.len().min(LISTED_BYTES)];
        let head = Bytes::copy_from_slice(head);
        Some(Listed { key, head, ttl })
    });
    Ok(Page {
        records: listed.collect(),
        next: next.map(Cursor::new),
    })
}

/// The first key after all keys with this prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    // UTF-8 has no byte 255, so the last byte can be raised. A zero byte is the end of all keys.
    match prefix.split_last() {
        Some((last, rest)) => [rest, &[last + 1]].concat(),
        None => vec![0],
    }
}
