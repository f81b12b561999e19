//! The store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{
    Claim, Cursor, Durability, Entry, FencedClaim, Finding, Page, Store, StoreError,
    StoreErrorKind::Unknown, Swap, async_trait, draw_fence,
};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::client::Client;
use crate::failure::bad_url;
use crate::leases::expiry_slack;
use crate::records::{Records, TRIES, bytes};
use crate::url::Address;
use crate::wire::{Compare, KeyValue, Range};
use crate::{doctor, listing, watches};

/// A store in a cluster of etcd. A clone shares the connections.
///
/// A record that etcd acknowledged is on the disks of most members. So the loss of a member loses no claim, and a fail-over does not
/// either. Needs etcd 3.4.21 or newer, but not 3.5.0 to 3.5.5: the others may lose records. One process has one connection to each
/// member that it uses.
///
/// A record lives up to 2.5 seconds longer than its time to live, a record of hours up to 1/3600 longer, and never shorter. The
/// time to live begins once more at each change of the leader, and in a full database at the renewals of other records with its etcd lease.
#[derive(Clone)]
pub struct EtcdStore(Arc<Records>);

/// How long [`EtcdStore::connect`] waits for a member.
const CONNECT: Duration = Duration::from_secs(5);

impl EtcdStore {
    /// Connects to the members that the URL names, for example `etcd://a:2379,b:2379,c:2379`. The port may be left out.
    ///
    /// `etcds://` connects by TLS. `user:password@` before the members logs in; other characters than letters and digits are written
    /// as `%40`. The parameters are all for `etcds://`:
    ///
    /// * `ca`: the file of certificates (PEM) that sign the members' certificates; without it the system's;
    /// * `cert` and `key`: the files of the client's certificate and its key;
    /// * `server_name`: the name in the members' certificates, if it is not their host name.
    ///
    /// The store works while the runtime runs that this is called in. Costs a round trip, and one more for a user.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the URL is wrong, no member answers within five seconds, there is no leader, or the user is refused.
    ///
    /// # Panics
    ///
    /// If it is not called in a runtime of tokio.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let client = Client::new(&address.members, address.login, address.tls.as_ref());
        let client =
            client.map_err(|_| bad_url("has members or certificates that cannot be used"))?;
        let records = Records::new(client);
        let question = Range::count(b"idempotence");
        match timeout(CONNECT, records.client.call(question)).await {
            // The user may have only the keys of its handle.
            Err(_) => Err(records.error(&Status::unavailable("no answer in time"))),
            Ok(Err(status)) if status.code() != Code::PermissionDenied => {
                Err(records.error(&status))
            }
            Ok(_) => Ok(Self(Arc::new(records))),
        }
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let key = &bytes(key);
        let change = (key, Some(value), Some(ttl));
        let is_free = Compare::is_of(key, 0);
        let Some(mut found) = self.0.change(&[is_free], &[change]).await? else {
            return Ok(Claim::Claimed);
        };
        match (found.records.pop().flatten(), found.full) {
            (Some(stored), _) if stored.value == value => Ok(Claim::Claimed),
            (None, Some(full)) => Err(full),
            (stored, _) => Ok(Claim::Taken(stored.unwrap_or_default().value)),
        }
    }

    /// One transaction stores the claim and the record of its number. Costs one round trip, and two if there is a last number.
    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        let [key, fence_key] = &[key, fence_key].map(bytes);
        // What is expected under the two keys.
        let (mut last, mut own) = (None, false);
        for _ in 0..TRIES {
            let drawn = draw_fence(last.as_ref(), value, ttl)?;
            let is = |key, expected| match expected {
                None => Compare::is_of(key, 0),
                Some(expected) => Compare::is_value(key, expected),
            };
            let expected = [is(key, own.then_some(value)), is(fence_key, last.as_ref())];
            let mut changes = Vec::new();
            if !own {
                changes.push((key, Some(value), Some(ttl)));
            }
            if let Some(record) = &drawn.record {
                changes.push((fence_key, Some(record), Some(drawn.ttl)));
            }
            let Some(found) = self.0.change(&expected, &changes).await? else {
                return Ok(FencedClaim::Claimed(drawn.fence));
            };
            let mut records = found.records.into_iter();
            match (records.next().flatten(), found.full) {
                (Some(stored), _) if stored.value != value => {
                    return Ok(FencedClaim::Taken(stored.value));
                }
                // The record is stored, but its number is not known.
                (Some(_), Some(full)) => return Err(full.with_kind(Unknown)),
                (None, Some(full)) => return Err(full),
                (stored, None) => own = stored.is_some(),
            }
            last = records.next().flatten().map(|stored| stored.value);
        }
        Err(self.0.conflict())
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let key = &bytes(key);
        self.0.swap(expected, (key, Some(value), Some(ttl))).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.0.swap(expected, (&bytes(key), None, None)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let Some(KeyValue { value, lease, .. }) = self.0.stored(&bytes(key)).await? else {
            return Ok(None);
        };
        let ttl = self.0.remaining(lease).await?;
        Ok(ttl.map(|ttl| Entry { value, ttl }))
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.0
            .swap(expected, (&bytes(key), Some(value), None))
            .await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        watches::subscribe(&self.0.client, bytes(key)).await
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

    fn expiry_slack(&self, ttl: Duration) -> Duration {
        expiry_slack(ttl)
    }

    async fn examine(&self, _key: &str, deadline: Duration) -> Vec<Finding> {
        doctor::examine(&self.0.client, deadline).await
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.0.client.addresses();
        f.debug_tuple("EtcdStore").field(&members).finish()
    }
}
