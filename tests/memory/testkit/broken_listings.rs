//! A store with one chosen mistake in its listings.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Cursor, Listed, Page, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError};

#[derive(Debug, Clone, Copy)]
pub(crate) enum ListMistake {
    None,
    /// A store that does not override the default.
    CannotList,
    LosesTheEndOfAPage,
    NeverEnds,
    IgnoresTheCase,
    ListsExpired,
    ReadsWholeRecords,
    HidesTheTtl,
}

#[derive(Debug)]
pub(crate) struct BrokenListings {
    store: MemoryStore,
    mistake: ListMistake,
    claimed: Mutex<BTreeSet<String>>,
}

impl BrokenListings {
    pub(crate) fn new(mistake: ListMistake) -> Self {
        Self {
            store: MemoryStore::new(),
            mistake,
            claimed: Mutex::default(),
        }
    }

    /// All keys that were ever claimed.
    fn claimed(&self, is_listed: impl Fn(&str) -> bool) -> Page {
        let claimed = self.claimed.lock().unwrap();
        let keys = claimed.iter().filter(|key| is_listed(key));
        let records = keys.map(|key| Listed {
            key: key.clone(),
            head: Bytes::new(),
            ttl: Some(Duration::from_mins(10)),
        });
        Page {
            records: records.collect(),
            next: None,
        }
    }
}

#[async_trait]
impl Wrap for BrokenListings {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.claimed.lock().unwrap().insert(key.to_owned());
        self.store.claim(key, value, ttl).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        let Some(mut page) = self.store.list(prefix, after, most).await? else {
            return Ok(None);
        };
        match self.mistake {
            ListMistake::CannotList => return Ok(None),
            ListMistake::LosesTheEndOfAPage if page.next.is_some() => drop(page.records.pop()),
            ListMistake::None | ListMistake::LosesTheEndOfAPage => {}
            ListMistake::NeverEnds => page.next = Some(Cursor::new(prefix)),
            ListMistake::IgnoresTheCase => {
                let prefix = prefix.to_lowercase();
                page = self.claimed(|key| key.to_lowercase().starts_with(&prefix));
            }
            ListMistake::ListsExpired => page = self.claimed(|key| key.starts_with(prefix)),
            ListMistake::ReadsWholeRecords => {
                for record in &mut page.records {
                    if let Some(entry) = self.store.get(&record.key).await? {
                        record.head = entry.value;
                    }
                }
            }
            ListMistake::HidesTheTtl => {
                for record in &mut page.records {
                    record.ttl = None;
                }
            }
        }
        Ok(Some(page))
    }
}
