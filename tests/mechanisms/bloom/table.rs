//! A table with a unique key, and its transactions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

/// Behaves like a database: a row is visible after its commit, and until then an insert of the same key waits.
#[derive(Default)]
pub(crate) struct Table {
    committed: Mutex<HashSet<u64>>,
    open: Mutex<HashMap<u64, Arc<tokio::sync::Mutex<()>>>>,
}

/// An open transaction with one row; rolled back when dropped.
pub(crate) struct Transaction<'a> {
    table: &'a Table,
    row: u64,
    _lock: OwnedMutexGuard<()>,
}

impl Table {
    pub(crate) fn select(&self, row: u64) -> bool {
        self.committed.lock().unwrap().contains(&row)
    }

    /// `None` if the row exists.
    pub(crate) async fn insert(&self, row: u64) -> Option<Transaction<'_>> {
        let lock = Arc::clone(self.open.lock().unwrap().entry(row).or_default());
        let lock = lock.lock_owned().await;
        let table = self;
        (!self.select(row)).then_some(Transaction {
            table,
            row,
            _lock: lock,
        })
    }
}

impl Transaction<'_> {
    pub(crate) fn commit(self) {
        self.table.committed.lock().unwrap().insert(self.row);
    }
}
