//! The store.

use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use bytes::Bytes;
use idempotent_runtime::store::{
    Claim, Cursor, Durability, Entry, Finding, Page, Store, StoreError, Swap, async_trait,
};
use tokio::time::timeout;

use crate::client::of_url;
use crate::clock::INEXACT;
use crate::failure::bad_url;
use crate::records::Records;
use crate::transaction::DynamoDbTransaction;
use crate::url::Address;
use crate::{doctor, listing, table};

/// A store in a table of Amazon DynamoDB. A clone shares the connections.
///
/// The clock of this machine does not count: the store takes the time from the answers of DynamoDB. A record lives longer than its
/// time to live by the margin (two seconds, see [`with_margin`](Self::with_margin)) and up to 9.3 seconds, because the unit of the
/// answers' time is a second, and the clock of this machine may run wrong between two answers; never shorter. A record has at most
/// 400 KB.
#[derive(Clone)]
pub struct DynamoDbStore(Arc<Records>);

/// How long [`DynamoDbStore::connect`] waits for an answer.
const CONNECT: Duration = Duration::from_secs(5);

impl DynamoDbStore {
    /// Uses the table with this name by a client of the SDK, for example one that `aws-config` has set up. Sends nothing.
    ///
    /// The store turns the retries of its copy of the client off, because a call sends a request again until its own deadline.
    pub fn new(client: &Client, table: impl Into<String>) -> Self {
        Self(Arc::new(Records::new(client, table.into())))
    }

    /// Connects to the table that the URL names, for example `dynamodb://idempotence?region=eu-central-1`.
    ///
    /// The credentials are `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` of the environment, as Lambda sets
    /// them. For other credentials see [`new`](Self::new). The parameters are:
    ///
    /// * `region`: without it `AWS_REGION` or `AWS_DEFAULT_REGION` of the environment;
    /// * `endpoint`: another address of the service, for example `http://localhost:8000`. Its answers must have the header `Date`, and
    ///   `x-amzn-requestid` or the type `application/x-amz-json-1.0`: without both, the answer is of a proxy;
    /// * `margin`: see [`with_margin`](Self::with_margin), for example `2s` or `500ms`.
    ///
    /// Costs a round trip.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the URL is wrong, the environment has no credentials, there is no answer within five seconds, or there is no
    /// such table.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let store = Self::new(
            &of_url(&address, |name| env::var(name).ok())?,
            address.table,
        );
        let store = match address.margin {
            Some(margin) => store.with_margin(margin),
            None => store,
        };
        match timeout(CONNECT, store.0.get("idempotence")).await {
            Ok(answer) => answer.map(|_| store),
            Err(_) => Err(bad_url("names a service that does not answer in time")),
        }
    }

    /// Sets the margin: how much the clocks of DynamoDB's servers may differ. By default two seconds.
    #[must_use]
    pub fn with_margin(self, margin: Duration) -> Self {
        Self(Arc::new(Records {
            margin,
            ..Records::clone(&self.0)
        }))
    }

    /// Begins a transaction for calls with the option `tx`. Sends nothing.
    pub fn transaction(&self) -> DynamoDbTransaction {
        DynamoDbTransaction::new(Arc::clone(&self.0))
    }

    /// Makes the table, which is paid by the request, and its TTL attribute. A table that exists keeps its settings.
    ///
    /// Waits until the table is ready, which takes some seconds.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the credentials do not allow it, or there is no answer.
    pub async fn create_table(&self) -> Result<(), StoreError> {
        table::create(&self.0).await
    }
}

#[async_trait]
impl Store for DynamoDbStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.0.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.0.write(key, Some(expected), value, Some(ttl)).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.0.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.0.write(key, Some(expected), value, None).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        listing::list(&self.0, prefix, after, most).await.map(Some)
    }

    fn durability(&self) -> Durability {
        Durability::Quorum
    }

    fn expiry_slack(&self, _ttl: Duration) -> Duration {
        // And a request of a second.
        self.0.margin + INEXACT + Duration::from_secs(1)
    }

    async fn examine(&self, _key: &str, deadline: Duration) -> Vec<Finding> {
        doctor::examine(&self.0, deadline).await
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynamoDbStore").field(&self.0.table).finish()
    }
}
