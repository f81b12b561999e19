//! Lists records by ranges of keys.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures_util::future::try_join_all;
use idempotent_runtime::store::{Cursor, LISTED_BYTES, Listed, Page, StoreError, StoreErrorKind};
use tonic::Code;

use crate::records::Records;
use crate::wire::{KeyValue, Range};

/// The most records on a page: their whole values are sent.
const MOST: usize = 100;

/// Reads a range of keys. A cursor is the last key of the page before. Costs a round trip for the page, one more while it has only keys
/// that are not UTF-8, and one for each lease on it, at once.
pub(crate) async fn list(
    records: &Records,
    prefix: &str,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Option<Page>, StoreError> {
    let from = match after {
        // The first key after a key is the key with a zero byte.
        Some(cursor) if cursor.as_str().starts_with(prefix) => format!("{}\0", cursor.as_str()),
        Some(_) => {
            let what = "the cursor is of another listing";
            let error = StoreError::new(StoreErrorKind::Misconfigured, what);
            return Err(error
                .reason("did not make this cursor")
                .place(records.place()));
        }
        None if prefix.is_empty() => "\0".to_owned(),
        None => prefix.to_owned(),
    };
    let mut range = Range {
        key: from.into(),
        end: end_of(prefix.as_bytes()),
        limit: i64::try_from(most.clamp(1, MOST)).unwrap_or(1),
        ..Range::default()
    };
    let (found, more) = loop {
        let (found, more) = read(records, range.clone()).await?;
        let last = found.last().map(|last| last.key.clone());
        // A key that is not UTF-8 is of another program, and a cursor cannot name it.
        let text = |found: KeyValue| Some((String::from_utf8(found.key.to_vec()).ok()?, found));
        let found: Vec<_> = found.into_iter().filter_map(text).collect();
        match last {
            Some(last) if more && found.is_empty() => {
                range.key = [&last[..], b"\0"].concat().into();
            }
            _ => break (found, more),
        }
    };
    let next = found.last().filter(|_| more);
    let next = next.map(|(key, _)| Cursor::new(key.clone()));
    let leases: HashSet<_> = found.iter().map(|(_, found)| found.lease).collect();
    let remaining = leases.into_iter().map(async |lease| {
        let remaining = records.remaining(lease).await?;
        Ok::<_, StoreError>((lease, remaining))
    });
    let remaining: HashMap<_, _> = try_join_all(remaining).await?.into_iter().collect();
    let listed = found.into_iter().filter_map(|(key, found)| {
        let ttl = remaining.get(&found.lease).copied().flatten()?;
        let head = Bytes::copy_from_slice(&found.value[..found.value.len().min(LISTED_BYTES)]);
        Some(Listed { key, head, ttl })
    });
    Ok(Some(Page {
        records: listed.collect(),
        next,
    }))
}

/// The values of a range, fewer if they do not fit in a reply.
async fn read(records: &Records, mut range: Range) -> Result<(Vec<KeyValue>, bool), StoreError> {
    loop {
        match records.client.call(range.clone()).await {
            Ok(reply) => return Ok((reply.kvs, reply.more)),
            Err(status) if status.code() == Code::OutOfRange && range.limit > 1 => {
                range.limit /= 4;
            }
            Err(status) => return Err(records.error(&status)),
        }
        range.limit = range.limit.max(1);
    }
}
/// The first key after all keys with this prefix.
fn end_of(prefix: &[u8]) -> Bytes {
    // UTF-8 has no byte 255, so the last byte can be raised. A zero byte is the end of all keys.
    match prefix.split_last() {
        Some((last, rest)) => [rest, &[last + 1]].concat().into(),
        None => Bytes::from_static(b"\0"),
    }
}
