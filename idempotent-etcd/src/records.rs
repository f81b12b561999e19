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

/// What is stored under the keys of a transaction that was not applied, and the error of a database that is full.
pub(crate) struct Found {
    pub(crate) records: Vec<Option<KeyValue>>,
    pub(crate) full: Option<StoreError>,
}

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

    /// Makes the changes, in one transaction, if all is as expected. If not, or if the database is full, returns what is stored.
    pub(crate) async fn change(
        &self,
        expected: &[Compare],
        changes: &[Change<'_>],
    ) -> Result<Option<Found>, StoreError> {
        let place = |error: StoreError| error.place(self.place());
        for _ in 0..TRIES {
            let mut success = Vec::with_capacity(changes.len());
            let mut leases = Vec::new();
            for (key, value, ttl) in changes {
                let lease = match ttl {
                    Some(ttl) => Some(self.leases.lasting(*ttl).await.map_err(place)?),
                    None => None,
                };
                leases.extend(lease);
                let put = value.map(|value| Op::put(key, value, lease));
                success.push(put.unwrap_or_else(|| Op::delete(key)));
            }
            let txn = Txn {
                compare: expected.to_vec(),
                success,
                failure: expected.iter().map(|one| Op::get(&one.key)).collect(),
            };
            let status = match self.batches.send(txn).await.map_err(place)? {
                Ok(reply) if reply.succeeded => return Ok(None),
                Ok(reply) => {
                    let found = reply.responses.into_iter();
                    let records = found.map(|reply| reply.range?.kvs.pop()).collect();
                    return Ok(Some(Found {
                        records,
                        full: None,
                    }));
                }
                Err(status) => status,
            };
            if !is_lease_gone(&status) {
                return self.found_by(&status, expected).await.map(Some);
            }
            // Nothing was changed.
            self.leases.forget(&leases);
        }
        Err(self.conflict())
    }

    /// What is stored after this answer to a transaction, if it says that the database is full. etcd may say so of a transaction that
    /// it has applied, so if this cannot be read, the outcome is unknown.
    async fn found_by(&self, status: &Status, expected: &[Compare]) -> Result<Found, StoreError> {
        let full = self.error(status);
        if full.kind() != Full {
            return Err(full);
        }
        let mut records = Vec::new();
        for compare in expected {
            let stored = self.stored(&compare.key).await;
            records.push(stored.map_err(|unread| unread.with_kind(Unknown))?);
        }
        let full = Some(full);
        Ok(Found { records, full })
    }

    /// Makes a change if the record is `expected`.
    pub(crate) async fn swap(
        &self,
        expected: &Bytes,
        change: Change<'_>,
    ) -> Result<Swap, StoreError> {
        let (key, value, ttl) = change;
        let is_long = expected.len() + value.map_or(0, Bytes::len) > LONG;
        let renews = value == Some(expected);
        for _ in 0..TRIES {
            // A renewal that comes late would take the time back that a later one has given.
            let compare = if is_long || renews {
                match self.stored(key).await? {
                    Some(stored) if stored.value == expected => {
                        Compare::is_of(key, stored.mod_revision)
                    }
                    stored => return Ok(other(stored, value)),
                }
            } else {
                Compare::is_value(key, expected)
            };
            let Some(mut found) = self.change(&[compare], &[change]).await? else {
                return Ok(Swap::Done);
            };
            match (found.records.pop().flatten(), found.full) {
                (Some(stored), Some(full)) if stored.value == expected => {
                    let is_done = renews && self.is_prolonged(stored.lease, ttl).await?;
                    return is_done.then_some(Swap::Done).ok_or(full);
                }
                // A renewal has changed the revision meanwhile.
                (Some(stored), None) if stored.value == expected => {}
                (stored, _) => return Ok(other(stored, value)),
            }
        }
        Err(self.conflict())
    }

    /// Begins a lease again, which a full database does, too: also for the other records of the lease. Returns whether it lasts as long.
    async fn is_prolonged(&self, id: i64, ttl: Option<Duration>) -> Result<bool, StoreError> {
        let Some(ttl) = ttl else {
            return Ok(true);
        };
        let replies = self.client.stream(KeepAlive { id }).await;
        let lease = match replies {
            Ok(mut replies) => replies.message().await,
            Err(status) => Err(status),
        };
        let lease = lease.map_err(|status| self.error(&status).with_kind(Unknown))?;
        Ok(lease.unwrap_or_default().lasts() >= ttl)
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
fn other(stored: Option<KeyValue>, value: Option<&Bytes>) -> Swap {
    match stored {
        None => Swap::Absent,
        Some(stored) if Some(&stored.value) == value => Swap::Done,
        Some(stored) => Swap::Other(stored.value),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

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
        let (client, mut requests) = scripted::client(None).await;
        let records = Records::new(client);
        let (key, value) = (bytes("key"), Bytes::from_static(b"value"));
        let change = (&key, None, None);
        let removal = records.swap(&value, change);
        let members = async {
            let (_, reply) = requests.next::<Txn>().await;
            let full = "etcdserver: mvcc: database space exceeded";
            reply.refuse(Code::ResourceExhausted, full);
            for _member in 0..2 {
                let (_, reply) = requests.next::<Range>().await;
                reply.refuse(Code::Unavailable, "etcdserver: no leader");
            }
        };
        let (removed, ()) = tokio::join!(removal, members);
        let error = removed.expect_err("a full database");
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
    }
}
