//! The dedup row of a call in its caller's `TransactWriteItems`.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Put, TransactWriteItem};
use bytes::Bytes;
use idempotent_runtime::port::dynamodb::{Row, RowClaim, Rows};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

use crate::records::{Records, record_of};

/// The items of a `TransactWriteItems`, among them the row of each call with the option `tx`: DynamoDB writes all of them or none.
///
/// A call reads its row when it begins: a duplicate is refused there, or answered with the result of the first call. The rows and the
/// items of the bodies are written by [`commit`](Self::commit), or by your own request with [`items`](Self::items). A transaction that
/// is dropped has written nothing.
///
/// Round trips: one for each call, and one to commit.
pub struct DynamoDbTransaction {
    records: Arc<Records>,
    rows: Vec<OwnRow>,
    items: Vec<TransactWriteItem>,
}

/// The row of a call.
struct OwnRow {
    key: String,
    value: Bytes,
    put: Put,
}

/// Why a transaction was not committed.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotCommitted {
    /// A call with the same key has committed since this one began. Nothing was written. Run the call again, with a new transaction: it
    /// is answered as every duplicate, or refused because its arguments differ.
    Taken,
    /// Another request is writing one of the items, or there are too many requests. Nothing was written. Run the call again after a
    /// pause.
    Conflict,
    /// DynamoDB refused your items: one reason for each, in their order. Nothing was written.
    Refused(Vec<CancellationReason>),
    /// Any other error. If its kind is [`Unknown`](StoreErrorKind::Unknown), the transaction may be committed: commit it again, or run
    /// the call again, which is a duplicate in that case.
    Failed(StoreError),
}

impl DynamoDbTransaction {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self {
            records,
            rows: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Adds an item. DynamoDB takes at most 100, the rows included.
    pub fn push(&mut self, item: TransactWriteItem) {
        self.items.push(item);
    }

    /// Writes the rows and the items. Costs one round trip. May be called again after a lost reply, but not with other items: if the
    /// first request was carried out, nothing more is written.
    ///
    /// # Errors
    ///
    /// Why nothing was written, or that it is unknown.
    pub async fn commit(&self) -> Result<(), NotCommitted> {
        let client = &self.records.client;
        let commit = client
            .transact_write_items()
            .set_transact_items(Some(self.items()));
        match commit.send().await {
            Ok(_) => Ok(()),
            Err(error) => self.outcome(&error),
        }
    }

    /// The rows and the items, for your own `TransactWriteItems`. If it fails, ask [`outcome`](Self::outcome).
    pub fn items(&self) -> Vec<TransactWriteItem> {
        let rows = self.rows.iter().map(|row| {
            let put = row.put.clone();
            TransactWriteItem::builder().put(put).build()
        });
        rows.chain(self.items.iter().cloned()).collect()
    }

    /// What the error of a `TransactWriteItems` that begins with [`items`](Self::items) says. `Ok`: the transaction was committed before,
    /// and its reply was lost.
    ///
    /// # Errors
    ///
    /// Why nothing was written, or that it is unknown.
    pub fn outcome(
        &self,
        error: &SdkError<TransactWriteItemsError, HttpResponse>,
    ) -> Result<(), NotCommitted> {
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        else {
            // A request that did not reach DynamoDB has no code.
            let is_answered = error.code().is_some();
            let error = self.records.error(error);
            let is_conflict = is_answered && error.kind() == StoreErrorKind::NotApplied;
            return Err(if is_conflict {
                NotCommitted::Conflict
            } else {
                NotCommitted::Failed(error)
            });
        };
        let reasons = cancelled.cancellation_reasons();
        let (of_rows, of_items) = reasons.split_at(self.rows.len().min(reasons.len()));
        let is = |reason: &CancellationReason, codes: &[&str]| {
            reason.code().is_some_and(|code| codes.contains(&code))
        };
        let is_refused = |reason: &CancellationReason| is(reason, &["ConditionalCheckFailed"]);
        if let Some(at) = of_rows.iter().position(is_refused) {
            let is_own = of_rows[at].item().map(record_of).as_ref() == Some(&self.rows[at].value);
            return if is_own {
                Ok(())
            } else {
                Err(NotCommitted::Taken)
            };
        }
        let passes = [
            "TransactionConflict",
            "ThrottlingError",
            "ProvisionedThroughputExceeded",
        ];
        let may_pass = reasons.iter().any(|reason| is(reason, &passes));
        Err(if may_pass && !of_items.iter().any(is_refused) {
            NotCommitted::Conflict
        } else {
            NotCommitted::Refused(of_items.to_vec())
        })
    }

    /// The row of a call, with its condition.
    async fn put(&self, row: Row<'_>, value: &Bytes) -> Result<OwnRow, StoreError> {
        Ok(OwnRow {
            key: row.key.to_owned(),
            value: value.clone(),
            put: self.records.put(row.key, value, row.ttl).await?,
        })
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

impl Rows for DynamoDbTransaction {
    fn claim<'a>(&'a mut self, row: Row<'a>, _wait: Option<Duration>) -> Answer<'a, RowClaim> {
        Box::pin(async move {
            if let Some(stored) = self.records.get(row.key).await? {
                return Ok(RowClaim::Taken(stored.value));
            }
            if let Some(own) = self.rows.iter().find(|own| own.key == row.key) {
                return Ok(RowClaim::Taken(own.value.clone()));
            }
            let own = self.put(row, row.value).await?;
            self.rows.push(own);
            Ok(RowClaim::Claimed)
        })
    }

    fn replace<'a>(&'a mut self, row: Row<'a>, value: &'a Bytes) -> Answer<'a, bool> {
        Box::pin(async move {
            let replaced = self.put(row, value).await?;
            let mut rows = self.rows.iter_mut();
            let own = rows.find(|own| own.key == row.key && own.value == *row.value);
            Ok(own.map(|own| *own = replaced).is_some())
        })
    }

    fn remove<'a>(&'a mut self, row: Row<'a>) -> Answer<'a, ()> {
        self.rows.retain(|own| own.key != row.key);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl fmt::Debug for DynamoDbTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbTransaction")
            .field("table", &self.records.table)
            .field("rows", &self.rows.len())
            .field("items", &self.items.len())
            .finish()
    }
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "a call with the same key has committed",
            Self::Conflict => "another request is writing an item of the transaction",
            Self::Refused(_) => "DynamoDB refused an item of the transaction",
            Self::Failed(_) => "the transaction failed",
        })
    }
}

impl Error for NotCommitted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}
