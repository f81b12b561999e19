//! The records of a cluster, and the transactions on them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{StoreError, StoreErrorKind, Swap};
use tonic::Status;

use crate::batches::Batches;
use crate::client::Client;
use crate::failure::{self, is_lease_gone};
use crate::leases::Leases;
use crate::wire::{Compare, KeepAlive, KeyValue, Op, Range, TimeToLive, Txn};

use StoreErrorKind::{Full, NotApplied, Unknown};

/// The records of a cluster.
pub(crate) struct Records {
    pub(crate) client: Arc<Client>,
    leases: Leases,
    batches: Batches,
}

/// A key, what is stored there, and for how long. Without a value, the record is removed. Without a time to live, the record expires
/// when it would have.
pub(crate) type Change<'a> = (&'a Bytes, Option<&'a Bytes>, Option<Duration>);

/// How often an operation begins again because its lease was lost or its record has changed.
pub(crate) const TRIES: u32 = 8;
/// A request has at most 1.5 MiB by default. A longer record is not sent twice in a request: it is read and compared here.
const LONG: usize = 256 << 10;

impl Records {
    pub(crate) fn new(client: Client) -> Self {
        let client = Arc::new(client);
        let leases = Leases::new(Arc::clone(&client));
        let batches = Batches::new(Arc::clone(&client));
        Self {
            client,
            leases,
            batches,
        }
    }

    pub(crate) fn error(&self, status: &Status) -> StoreError {
        failure::error(status).place(self.place())
    }

    /// The kind of store and the addresses of its members.
    pub(crate) fn place(&self) -> String {
        format!("etcd {}", self.client.addresses())
    }

    /// How long a record with this lease remains. `None`: it has expired. `Some(None)`: it never expires.
    pub(crate) async fn remaining(&self, id: i64) -> Result<Option<Option<Duration>>, StoreError> {
        if id == 0 {
            return Ok(Some(None));
        }
        let lease = self.client.call(TimeToLive { id }).await;
        let lease = lease.map_err(|status| self.error(&status))?;
        // The last second of a lease is 0.
        let seconds = u64::try_from(lease.ttl).ok();
        Ok(seconds.map(|seconds| Some(Duration::from_secs(seconds.max(1)))))
    }

    /// What is stored under `key`.
    pub(crate) async fn stored(&self, key: &Bytes) -> Result<Option<KeyValue>, StoreError> {
        let reply = self.client.call(Range::of(key)).await;
        let mut found = reply.map_err(|status| self.error(&status))?.kvs;
        Ok(found.pop())
    }

    /// Makes the changes, in one transaction, if all is as expected. If not, returns what is stored under these keys.
    pub(crate) async fn change(
        &self,
        expected: Vec<Compare>,
        changes: &[Change<'_>],
        keys: &[&Bytes],
    ) -> Result<Option<Vec<Option<Bytes>>>, StoreError> {
        let mut txn = Txn {
            compare: expected,
            success: Vec::new(),
            failure: keys.iter().copied().map(Op::get).collect(),
        };
        let place = |error: StoreError| error.place(self.place());
        for _ in 0..TRIES {
            let mut success = Vec::with_capacity(changes.len());
            for (key, value, ttl) in changes {
                let lease = match ttl {
                    Some(ttl) => Some(self.leases.lasting(*ttl).await.map_err(place)?),
                    None => None,
                };
                let put = value.map(|value| Op::put(key, value, lease));
                success.push(put.unwrap_or_else(|| Op::delete(key)));
            }
            txn.success = success;
            match self.batches.send(txn.clone()).await.map_err(place)? {
                Ok(reply) if reply.succeeded => return Ok(None),
                Ok(reply) => {
                    let found = reply
                        .responses
                        .into_iter()
                        .map(|reply| reply.range?.kvs.pop());
                    let found = found.map(|found| found.map(|found| found.value));
                    return Ok(Some(found.collect()));
                }
                // Nothing was changed.
                Err(status) if is_lease_gone(&status) => self.leases.forget(),
                Err(status) => return Err(self.error(&status)),
            }
        }
        Err(self.conflict())
    }

    /// Makes a change if the record is `expected`.
    pub(crate) async fn swap(
        &self,
        expected: &Bytes,
        change: Change<'_>,
    ) -> Result<Swap, StoreError> {
        let (key, value, _) = change;
        let is_long = expected.len() + value.map_or(0, Bytes::len) > LONG;
        // A renewal that comes late would take the time back that a later one has given.
        let by_revision = is_long || value == Some(expected);
        for _ in 0..TRIES {
            let compare = if by_revision {
                match self.stored(key).await? {
                    Some(stored) if stored.value == expected => {
                        Compare::is_of(key, stored.mod_revision)
                    }
                    stored => return Ok(other(stored.map(|stored| stored.value), value)),
                }
            } else {
                Compare::is_value(key, expected)
            };
            match self.change(vec![compare], &[change], &[key]).await {
                Ok(None) => return Ok(Swap::Done),
                Ok(Some(mut found)) => match found.pop().flatten() {
                    // A renewal has changed the revision meanwhile.
                    Some(stored) if stored == expected => {}
                    stored => return Ok(other(stored, value)),
                },
                Err(error) => return self.swap_when_full(expected, change, error).await,
            }
        }
        Err(self.conflict())
    }

    /// A database that is full refuses transactions that store. It still reads, and prolongs a lease: also for the other records of the lease.
    async fn swap_when_full(
        &self,
        expected: &Bytes,
        (key, value, ttl): Change<'_>,
        error: StoreError,
    ) -> Result<Swap, StoreError> {
        let (stored, full) = self.read_back(key, error).await?;
        let lease = match stored {
            Some(stored) if stored.value == expected => stored.lease,
            stored => return Ok(other(stored.map(|stored| stored.value), value)),
        };
        let is_renewed = match ttl {
            _ if value != Some(expected) => false,
            None => true,
            Some(ttl) => {
                let lasts = self.prolong(lease).await;
                lasts.map_err(|status| self.error(&status).with_kind(Unknown))? >= ttl
            }
        };
        if is_renewed {
            Ok(Swap::Done)
        } else {
            Err(full)
        }
    }

    /// What is stored under `key` after a transaction was refused because the database is full. etcd may say so of a transaction that
    /// it has applied, so without this answer the outcome is unknown. Other errors are returned.
    pub(crate) async fn read_back(
        &self,
        key: &Bytes,
        error: StoreError,
    ) -> Result<(Option<KeyValue>, StoreError), StoreError> {
        if error.kind() != Full {
            return Err(error);
        }
        let stored = self.stored(key).await;
        let stored = stored.map_err(|unread| unread.with_kind(Unknown))?;
        Ok((stored, error))
    }

    /// Begins a lease again. Returns how long it lasts.
    async fn prolong(&self, id: i64) -> Result<Duration, Status> {
        let mut replies = self.client.stream(KeepAlive { id }).await?;
        let lease = replies.message().await?.unwrap_or_default();
        Ok(lease.lasts())
    }

    /// Other requests changed the record again and again, or the server loses each lease.
    pub(crate) fn conflict(&self) -> StoreError {
        let what = "the record or its lease changed each time";
        StoreError::new(NotApplied, what).place(self.place())
    }
}

/// The bytes of a key.
pub(crate) fn bytes(key: &str) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}

/// The answer to a change that was not applied: to one that has been applied before as well, because the first reply was lost.
fn other(stored: Option<Bytes>, value: Option<&Bytes>) -> Swap {
    match stored {
        None => Swap::Absent,
        Some(stored) if Some(&stored) == value => Swap::Done,
        Some(stored) => Swap::Other(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted;
    use crate::wire::{Grant, Lease, RangeReply, TxnReply};

    #[tokio::test]
    async fn a_renewal_that_comes_late_changes_nothing() {
        let (client, mut requests) = scripted::client(None).await;
        let records = Records::new(client);
        let (key, value) = (bytes("key"), Bytes::from_static(b"value"));
        let change = (&key, Some(&value), Some(Duration::from_mins(1)));
        let renewal = records.swap(&value, change);
        let member = async {
            let (_, reply) = requests.next::<Range>().await;
            let stored = KeyValue {
                key: key.clone(),
                mod_revision: 7,
                value: value.clone(),
                lease: 1,
            };
            reply.answer(&RangeReply {
                kvs: vec![stored],
                ..RangeReply::default()
            });
            let (Grant { ttl }, reply) = requests.next::<Grant>().await;
            reply.answer(&Lease { id: 2, ttl });
            let (renewal, reply) = requests.next::<Txn>().await;
            // A later renewal changes the revision.
            assert_eq!(renewal.compare, [Compare::is_of(&key, 7)]);
            reply.answer(&TxnReply {
                succeeded: true,
                ..TxnReply::default()
            });
        };
        let (renewed, ()) = tokio::join!(renewal, member);
        assert_eq!(renewed.expect("an answer"), Swap::Done);
    }

    #[tokio::test]
    async fn a_change_that_a_full_database_may_have_applied_is_unknown_if_it_cannot_be_read_back() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let records = Records::new(Client::new(&[address], None, None).expect("a client"));
        let full = || StoreError::new(StoreErrorKind::Full, "no space");
        let (key, value) = (&bytes("key"), &Bytes::from_static(b"value"));

        let unread = records.stored(key).await.expect_err("no server");
        assert_eq!(unread.kind(), StoreErrorKind::NotApplied, "{unread:?}");
        let read = records.read_back(key, full()).await;
        let change = (key, Some(value), None);
        let swap = records.swap_when_full(value, change, full()).await;
        for error in [read.map(drop), swap.map(drop)] {
            let error = error.expect_err("no server");
            assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
        }
    }
}
