//! The operations on records: each is one transaction.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, FencedClaim, StoreError, StoreErrorKind, Swap, draw_fence};
use tonic::Status;

use crate::client::Client;
use crate::failure::{self, is_full, is_lease_gone};
use crate::leases::Leases;
use crate::wire::{Compare, KeepAlive, KeyValue, Op, Range, TimeToLive, Txn};

/// The records of a cluster.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) client: Arc<Client>,
    leases: Leases,
}

/// What a transaction does with a record that is the expected one.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Stores a value. Without a time to live, the record expires when it would have.
    Put(&'a Bytes, Option<Duration>),
    Remove,
}

/// How often an operation begins again because its lease was lost or its record has changed.
const TRIES: u32 = 8;
/// A request has at most 1.5 MiB by default. A longer record is not sent twice in a request: it is read and compared here.
const LONG: usize = 256 << 10;

impl Records {
    pub(crate) fn new(client: Client) -> Self {
        let client = Arc::new(client);
        let leases = Leases::new(Arc::clone(&client));
        Self { client, leases }
    }

    pub(crate) async fn claim(
        &self,
        key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Claim, StoreError> {
        let key = &bytes(key);
        for _ in 0..TRIES {
            let lease = match self.lease(ttl).await {
                Err(error) if error.kind() == StoreErrorKind::Full => {
                    return self.claim_when_full(key, value, error).await;
                }
                lease => lease?,
            };
            let txn = Txn {
                compare: vec![Compare::is_free(key)],
                success: vec![Op::put(key, value, Some(lease))],
                failure: vec![Op::get(key)],
            };
            match self.send(txn, &[lease]).await {
                Ok(None) => {}
                Ok(Some(answer)) if answer.is_done => return Ok(Claim::Claimed),
                Ok(Some(mut answer)) => {
                    return Ok(taken(answer.take_first().unwrap_or_default(), value));
                }
                Err(status) if is_full(&status) => {
                    return self.claim_when_full(key, value, self.error(&status)).await;
                }
                Err(status) => return Err(self.error(&status)),
            }
        }
        Err(self.conflict())
    }

    /// One transaction stores the claim and the record of its number. Costs one round trip, and two if there is a last number.
    pub(crate) async fn claim_fenced(
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
                None => Compare::is_free(key),
                Some(expected) => Compare::is_value(key, expected),
            };
            let (mut success, mut leases) = (Vec::new(), Vec::new());
            if !own {
                leases.push(self.lease(ttl).await?);
                success.push(Op::put(key, value, leases.last().copied()));
            }
            if let Some(record) = &drawn.record {
                leases.push(self.lease(drawn.ttl).await?);
                success.push(Op::put(fence_key, record, leases.last().copied()));
            }
            let txn = Txn {
                compare: vec![is(key, own.then_some(value)), is(fence_key, last.as_ref())],
                success,
                failure: vec![Op::get(key), Op::get(fence_key)],
            };
            let answer = match self.send(txn, &leases).await {
                Ok(None) => continue,
                Ok(Some(answer)) => answer,
                Err(status) if is_full(&status) => {
                    let full = self.error(&status);
                    return match self.claim_when_full(key, value, full).await? {
                        Claim::Taken(stored) => Ok(FencedClaim::Taken(stored)),
                        // The record is stored, but its number is not known.
                        Claim::Claimed => Err(self.unknown(self.error(&status))),
                    };
                }
                Err(status) => return Err(self.error(&status)),
            };
            if answer.is_done {
                return Ok(FencedClaim::Claimed(drawn.fence));
            }
            let mut found = answer.found.into_iter();
            match found.next().flatten() {
                Some(stored) if stored != *value => return Ok(FencedClaim::Taken(stored)),
                stored => own = stored.is_some(),
            }
            last = found.next().flatten();
        }
        Err(self.conflict())
    }

    pub(crate) fn error(&self, status: &Status) -> StoreError {
        failure::error(status).place(self.place())
    }

    /// The kind of store and the addresses of its members.
    pub(crate) fn place(&self) -> String {
        let members = self.client.members().iter();
        let members: Vec<_> = members.map(|member| member.address.as_str()).collect();
        format!("etcd {}", members.join(","))
    }

    /// What is stored under `key`.
    pub(crate) async fn stored(&self, key: &Bytes) -> Result<Option<KeyValue>, StoreError> {
        let reply = self.client.call(Range::of(key)).await;
        let mut found = reply.map_err(|status| self.error(&status))?.kvs;
        Ok(found.pop())
    }

    /// A lease that lasts at least `ttl`.
    async fn lease(&self, ttl: Duration) -> Result<i64, StoreError> {
        let lease = self.leases.lasting(ttl).await;
        lease.map_err(|error| error.place(self.place()))
    }

    /// Sends a transaction. `None`: a lease was lost, so that nothing was changed and the operation must begin again.
    async fn send(&self, txn: Txn, leases: &[i64]) -> Result<Option<Answer>, Status> {
        match self.client.call(txn).await {
            Ok(reply) => {
                let found = reply.responses.into_iter().map(|response| response.range);
                let found = found.map(|range| range.and_then(|mut range| range.kvs.pop()));
                let found = found.map(|found| found.map(|found| found.value));
                Ok(Some(Answer {
                    is_done: reply.succeeded,
                    found: found.collect(),
                }))
            }
            Err(status) if is_lease_gone(&status) => {
                for id in leases {
                    self.leases.forget(*id);
                }
                Ok(None)
            }
            Err(status) => Err(status),
        }
    }

    /// Changes a record if it is `expected`.
    pub(crate) async fn swap(
        &self,
        key: &str,
        expected: &Bytes,
        change: Change<'_>,
    ) -> Result<Swap, StoreError> {
        let key = &bytes(key);
        let (value, lasts) = match change {
            Change::Put(value, ttl) => (Some(value), ttl),
            Change::Remove => (None, None),
        };
        let is_long = expected.len() + value.map_or(0, Bytes::len) > LONG;
        for _ in 0..TRIES {
            let compare = if is_long {
                match self.stored(key).await? {
                    Some(stored) if stored.value == *expected => {
                        Compare::is_of(key, stored.mod_revision)
                    }
                    stored => return Ok(other(stored.map(|stored| stored.value), value)),
                }
            } else {
                Compare::is_value(key, expected)
            };
            let lease = match lasts {
                None => None,
                Some(ttl) => match self.lease(ttl).await {
                    Err(error) if error.kind() == StoreErrorKind::Full => {
                        return self.swap_when_full(key, expected, change, error).await;
                    }
                    lease => Some(lease?),
                },
            };
            let txn = Txn {
                compare: vec![compare],
                success: vec![
                    value.map_or_else(|| Op::delete(key), |value| Op::put(key, value, lease)),
                ],
                failure: vec![Op::get(key)],
            };
            match self.send(txn, lease.as_slice()).await {
                Ok(None) => {}
                Ok(Some(answer)) if answer.is_done => return Ok(Swap::Done),
                // A renewal has changed the revision of a long record meanwhile.
                Ok(Some(answer)) if answer.first() == Some(expected) => {}
                Ok(Some(mut answer)) => return Ok(other(answer.take_first(), value)),
                Err(status) if is_full(&status) => {
                    let error = self.error(&status);
                    return self.swap_when_full(key, expected, change, error).await;
                }
                Err(status) => return Err(self.error(&status)),
            }
        }
        Err(self.conflict())
    }

    /// A claim was refused because the database is full. The key may be taken, also by this claim.
    async fn claim_when_full(
        &self,
        key: &Bytes,
        value: &Bytes,
        full: StoreError,
    ) -> Result<Claim, StoreError> {
        let stored = self.read_back(key).await?;
        stored.map_or(Err(full), |stored| Ok(taken(stored.value, value)))
    }

    /// What is stored under `key` after a transaction was refused because the database is full. etcd may say so of a transaction that
    /// it has applied, so without this answer the outcome is unknown.
    async fn read_back(&self, key: &Bytes) -> Result<Option<KeyValue>, StoreError> {
        let stored = self.stored(key).await;
        stored.map_err(|error| self.unknown(error))
    }

    fn unknown(&self, error: StoreError) -> StoreError {
        StoreError::new(StoreErrorKind::Unknown, error).place(self.place())
    }

    /// A database that is full refuses transactions that store. It still reads, and prolongs a lease: also for the other records of the lease.
    async fn swap_when_full(
        &self,
        key: &Bytes,
        expected: &Bytes,
        change: Change<'_>,
        full: StoreError,
    ) -> Result<Swap, StoreError> {
        let stored = self.read_back(key).await?;
        let lease = match &stored {
            Some(stored) if stored.value == *expected => stored.lease,
            _ => {
                let value = if let Change::Put(value, _) = change {
                    Some(value)
                } else {
                    None
                };
                return Ok(other(stored.map(|stored| stored.value), value));
            }
        };
        match change {
            Change::Put(value, Some(ttl)) if value == expected => {
                let prolonged = self
                    .prolong(lease)
                    .await
                    .map_err(|status| self.unknown(self.error(&status)))?;
                if prolonged >= ttl {
                    Ok(Swap::Done)
                } else {
                    Err(full)
                }
            }
            Change::Put(value, None) if value == expected => Ok(Swap::Done),
            _ => Err(full),
        }
    }

    /// Begins a lease again. Returns how long it lasts.
    async fn prolong(&self, id: i64) -> Result<Duration, Status> {
        let mut replies = self.client.stream(KeepAlive { id }).await?;
        let lease = replies.message().await?.unwrap_or_default();
        Ok(Duration::from_secs(
            u64::try_from(lease.ttl).unwrap_or_default(),
        ))
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

    /// Other requests changed the record again and again, or the server loses each lease.
    fn conflict(&self) -> StoreError {
        let error = StoreError::new(
            StoreErrorKind::NotApplied,
            "the record or its lease changed each time",
        );
        error.place(self.place())
    }
}

/// The bytes of a key.
pub(crate) fn bytes(key: &str) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}

/// The answer to a transaction: whether it was applied, and what it read.
struct Answer {
    is_done: bool,
    found: Vec<Option<Bytes>>,
}

impl Answer {
    fn first(&self) -> Option<&Bytes> {
        self.found.first().and_then(Option::as_ref)
    }

    fn take_first(&mut self) -> Option<Bytes> {
        self.found.first_mut().and_then(Option::take)
    }
}

/// The answer to a change that was not applied: to one that has been applied before as well, because the first reply was lost.
fn other(stored: Option<Bytes>, value: Option<&Bytes>) -> Swap {
    match stored {
        None => Swap::Absent,
        Some(stored) if Some(&stored) == value => Swap::Done,
        Some(stored) => Swap::Other(stored),
    }
}

/// The answer to a claim that finds a record.
fn taken(stored: Bytes, value: &Bytes) -> Claim {
    if stored == *value {
        Claim::Claimed
    } else {
        Claim::Taken(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let claim = records.claim_when_full(key, value, full()).await;
        let change = Change::Put(value, None);
        let swap = records.swap_when_full(key, value, change, full()).await;
        for error in [claim.map(drop), swap.map(drop)] {
            let error = error.expect_err("no server");
            assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
        }
    }
}
