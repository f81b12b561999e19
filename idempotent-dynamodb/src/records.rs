//! The operations on records: each is one request.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::operation::get_item::GetItemOutput;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use aws_sdk_dynamodb::types::{AttributeValue, Put};
use aws_sdk_dynamodb::{Client, Error};
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, StoreError, StoreErrorKind, Swap};

use crate::client::with_clock;
use crate::clock::{Clock, Now, whole_millis};
use crate::failure::{self, Refusal};

/// The attribute with the key of the record: the partition key of the table.
pub(crate) const ID: &str = "id";
/// The attribute with the record.
const RECORD: &str = "stored_record";
/// When the record expires, in milliseconds since 1970. A record without it never expires: another program wrote it.
const EXPIRES_MS: &str = "expires_ms";
/// The TTL attribute of the table: when DynamoDB may remove the item, in seconds since 1970.
pub(crate) const EXPIRES_AT: &str = "expires_at";

/// No record is stored, or it has expired.
const IS_FREE: &str = "attribute_not_exists(id) OR expires_ms <= :now";
/// This record is stored and has not expired.
const IS_EXPECTED: &str =
    "stored_record = :expected AND (attribute_not_exists(expires_ms) OR expires_ms > :now)";
const LARGEST_ITEM: usize = 400 << 10;
/// What an item has beside its key and its record: names and numbers.
const OVERHEAD: usize = 100;
/// How often an operation begins again because the clock was wrong.
const TRIES: u32 = 4;

/// An item of the table.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// The records of a table.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) clock: Clock,
    /// How much two clocks of DynamoDB may differ.
    pub(crate) margin: Duration,
}

impl Records {
    pub(crate) fn new(client: &Client, table: String) -> Self {
        let (client, clock) = with_clock(client);
        Self {
            client,
            table,
            clock,
            margin: Duration::from_secs(2),
        }
    }

    pub(crate) async fn claim(
        &self,
        key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Claim, StoreError> {
        Ok(match self.write(key, None, value, Some(ttl)).await? {
            Swap::Done => Claim::Claimed,
            Swap::Other(stored) => Claim::Taken(stored),
            // A service that does not say what is stored.
            Swap::Absent => Claim::Taken(Bytes::new()),
        })
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let Some(item) = self.read(key).await?.item else {
            return Ok(None);
        };
        let now = self.now().await?;
        Ok(live(&item, now))
    }

    pub(crate) async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let sent = self.now().await?;
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .key(ID, text(key))
            .condition_expression(IS_EXPECTED)
            .expression_attribute_values(":expected", bytes(expected))
            .expression_attribute_values(":now", number(sent.earliest))
            .return_values_on_condition_check_failure(AllOld);
        match delete.send().await {
            Ok(_) => Ok(Swap::Done),
            Err(refused) => Ok(other(self.found(refused)?, sent, None)),
        }
    }

    /// Stores a record if `expected` is stored, or without it if the key is free. Without a time to live, the record expires when it
    /// would have.
    pub(crate) async fn write(
        &self,
        key: &str,
        expected: Option<&Bytes>,
        value: &Bytes,
        ttl: Option<Duration>,
    ) -> Result<Swap, StoreError> {
        self.check_size(key, value)?;
        let mut stored = expected;
        for attempt in 0..TRIES {
            let written = self.update(key, stored, value, ttl).await;
            // After the first attempt the value is stored, perhaps for too short.
            let written = written.map_err(|error| match attempt {
                0 => error,
                _ => error.with_kind(StoreErrorKind::Unknown),
            })?;
            stored = match written {
                None => Some(value),
                // The claim has expired already.
                Some(Swap::Absent) if attempt > 0 && expected.is_none() => None,
                Some(swap) => return Ok(swap),
            };
        }
        Err(self.no_expiry())
    }

    /// Sends an update. `None`: the value is stored, but may expire too early. A renewal first reads when the record expires.
    async fn update(
        &self,
        key: &str,
        expected: Option<&Bytes>,
        value: &Bytes,
        ttl: Option<Duration>,
    ) -> Result<Option<Swap>, StoreError> {
        let renews = expected == Some(value) && ttl.is_some();
        let mut condition = match expected {
            Some(_) => IS_EXPECTED.to_owned(),
            None => IS_FREE.to_owned(),
        };
        let mut seen = None;
        if renews {
            seen = self.expiry_of(key).await?;
            condition += match seen {
                Some(_) => " AND expires_ms = :seen",
                None => " AND attribute_not_exists(expires_ms)",
            };
        }
        let sent = self.now().await?;
        let mut values = HashMap::from([(":now".to_owned(), number(sent.earliest))]);
        values.extend(expected.map(|expected| (":expected".to_owned(), bytes(expected))));
        values.extend(seen.map(|seen| (":seen".to_owned(), seen)));
        let mut sets = Vec::new();
        if !renews {
            sets.push("stored_record = :value");
            values.insert(":value".to_owned(), bytes(value));
        }
        if let Some(ttl) = ttl {
            let [ms, at] = self.expiry(sent, ttl);
            sets.push("expires_ms = :ms, expires_at = :at");
            values.extend([(":ms".to_owned(), ms), (":at".to_owned(), at)]);
        }
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(ID, text(key))
            .condition_expression(condition)
            .update_expression(format!("SET {}", sets.join(", ")))
            .set_expression_attribute_values(Some(values))
            .return_values_on_condition_check_failure(AllOld);
        let (swap, is_late) = match update.send().await {
            Ok(_) => (Swap::Done, self.clock.was_late(sent, self.margin)),
            // The reply that stored the value may be lost, and its time with it.
            Err(refused) => {
                let is_late = self.clock.may_have_been_late(sent, self.margin);
                let swap = other(self.found(refused)?, sent, Some(value));
                // After a refused renewal: another one was quicker.
                (swap, is_late || renews)
            }
        };
        let may_expire_early = swap == Swap::Done && ttl.is_some() && is_late;
        Ok((!may_expire_early).then_some(swap))
    }

    /// When the record expires. A renewal replaces only this time: one that comes late would take the time back that a later one has given.
    async fn expiry_of(&self, key: &str) -> Result<Option<AttributeValue>, StoreError> {
        let item = self.read(key).await?.item;
        Ok(item.and_then(|mut item| item.remove(EXPIRES_MS)))
    }

    /// The item of a claim, for a transaction.
    pub(crate) async fn put(
        &self,
        key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Put, StoreError> {
        self.check_size(key, value)?;
        let now = self.now().await?;
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(self.item(key, value, now, ttl)))
            .condition_expression(IS_FREE)
            .expression_attribute_values(":now", number(now.earliest))
            .return_values_on_condition_check_failure(AllOld);
        let put = put.build();
        put.map_err(|error| StoreError::new(StoreErrorKind::Misconfigured, error))
    }

    /// The time at DynamoDB. Costs a request if it is not known.
    pub(crate) async fn now(&self) -> Result<Now, StoreError> {
        if let Some(now) = self.clock.now() {
            return Ok(now);
        }
        // Every answer has the time, a refusal too.
        let answer = self.read("idempotence").await;
        match (self.clock.now(), answer) {
            (Some(now), _) => Ok(now),
            (None, Ok(_)) => Err(self.no_time()),
            (None, Err(error)) if error.kind() == StoreErrorKind::Unknown => {
                Err(error.with_kind(StoreErrorKind::NotApplied))
            }
            (None, Err(error)) => Err(error),
        }
    }

    async fn read(&self, key: &str) -> Result<GetItemOutput, StoreError> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .key(ID, text(key))
            .consistent_read(true);
        get.send().await.map_err(|error| self.error(&error))
    }

    pub(crate) fn error<E: Refusal>(&self, error: &SdkError<E, HttpResponse>) -> StoreError {
        failure::error(error).place(self.place())
    }

    pub(crate) fn place(&self) -> String {
        format!("the DynamoDB table {}", self.table)
    }

    /// The item that refused a condition.
    fn found<E>(&self, error: SdkError<E, HttpResponse>) -> Result<Option<Item>, StoreError>
    where
        E: Refusal,
        Error: From<SdkError<E, HttpResponse>>,
    {
        if error.code() != Some("ConditionalCheckFailedException") {
            return Err(self.error(&error));
        }
        Ok(match Error::from(error) {
            Error::ConditionalCheckFailedException(refused) => refused.item,
            _ => None,
        })
    }

    fn check_size(&self, key: &str, value: &Bytes) -> Result<(), StoreError> {
        if key.len() + value.len() + OVERHEAD > LARGEST_ITEM {
            let error = StoreError::new(StoreErrorKind::Full, "an item has at most 400 KB");
            let error = error.reason("takes no record of more than 400 KB");
            return Err(error.place(self.place()));
        }
        Ok(())
    }

    fn item(&self, key: &str, value: &Bytes, now: Now, ttl: Duration) -> Item {
        let [ms, at] = self.expiry(now, ttl);
        let item = [
            (ID, text(key)),
            (RECORD, bytes(value)),
            (EXPIRES_MS, ms),
            (EXPIRES_AT, at),
        ];
        item.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// When a record expires, in milliseconds, and when DynamoDB may remove it, in seconds.
    fn expiry(&self, now: Now, ttl: Duration) -> [AttributeValue; 2] {
        let ms = now.latest + whole_millis(ttl) + whole_millis(self.margin);
        [number(ms), number(ms / 1000 + 1)]
    }

    /// The machine slept during the request, or its answer does not count.
    fn no_time(&self) -> StoreError {
        let what = "this machine slept, or no answer has `Date` and `x-amzn-requestid` or the type `application/x-amz-json-1.0`";
        let error = StoreError::new(StoreErrorKind::Unknown, what);
        error.reason("does not tell the time").place(self.place())
    }

    /// After each try the stored record may expire too early.
    fn no_expiry(&self) -> StoreError {
        let what =
            "each time the clock of this machine was wrong, or another request renewed the record";
        let error = StoreError::new(StoreErrorKind::Unknown, what);
        error
            .reason("may let the record expire too early")
            .place(self.place())
    }
}

/// The record of an item.
pub(crate) fn record_of(item: &Item) -> Bytes {
    let record = item.get(RECORD).and_then(|value| value.as_b().ok());
    record.map_or_else(Bytes::new, |record| Bytes::copy_from_slice(record.as_ref()))
}

/// The record of an item that has not expired.
pub(crate) fn live(item: &Item, now: Now) -> Option<Entry> {
    let expires = item.get(EXPIRES_MS).and_then(|value| value.as_n().ok());
    let expires = expires.and_then(|expires| expires.parse::<i64>().ok());
    let ttl = match expires.map(|expires| expires.saturating_sub(now.earliest)) {
        Some(remaining) if remaining <= 0 => return None,
        remaining => remaining.map(|millis| Duration::from_millis(millis.unsigned_abs())),
    };
    let value = record_of(item);
    Some(Entry { value, ttl })
}

/// The answer to a change that was not applied: to one that has been applied before as well, because the first reply was lost.
fn other(found: Option<Item>, sent: Now, value: Option<&Bytes>) -> Swap {
    match found.and_then(|item| live(&item, sent)) {
        None => Swap::Absent,
        Some(stored) if Some(&stored.value) == value => Swap::Done,
        Some(stored) => Swap::Other(stored.value),
    }
}

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn bytes(bytes: &Bytes) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes.as_ref()))
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
