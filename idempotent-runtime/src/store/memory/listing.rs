//! Lists the records of a store in memory, in the order of their keys.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Shards, lock};
use crate::store::listing::{Cursor, LISTED_BYTES, Listed, Page};

impl Shards {
    /// Lists the records with this prefix. A cursor is the first key of its page.
    ///
    /// Reads the keys of all records for each page. The first `most` of them and the key after them are kept.
    pub(super) fn list(&self, prefix: &str, after: Option<&Cursor>, most: usize) -> Page {
        let (first, most, now) = (
            after.map_or("", Cursor::as_str),
            most.max(1),
            Instant::now(),
        );
        let mut found = BTreeMap::new();
        for shard in &self.all {
            for (key, value, ttl) in lock(shard).list(prefix, first, now) {
                let head = Bytes::copy_from_slice(&value[..value.len().min(LISTED_BYTES)]);
                found.insert(key.to_string(), (head, ttl));
                if found.len() > most + 1 {
                    found.pop_last();
                }
            }
        }
        let next = (found.len() > most).then(|| found.pop_last()).flatten();
        let records = found.into_iter().map(|(key, (head, ttl))| Listed {
            key,
            head,
            ttl: Some(ttl),
        });
        Page {
            records: records.collect(),
            next: next.map(|(key, _)| Cursor::new(key)),
        }
    }
}
