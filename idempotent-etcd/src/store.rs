//! The store: each operation on a record is one transaction.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use idempotent_runtime::store::{
    Claim, Cursor, Durability, Entry, FencedClaim, Finding, LISTED_BYTES, Listed, Page, Store,
    StoreError, StoreErrorKind, Swap, async_trait, draw_fence,
};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::client::Client;
use crate::doctor;
use crate::failure::{self, bad_url, is_full, is_lease_gone};
use crate::leases::{Leases, resolution};
use crate::url::Address;
use crate::wire::{Compare, KeepAlive, KeyValue, Op, Range, TimeToLive, Txn, Watch};

/// A store in a cluster of etcd. A clone shares the connections.
///
/// A record that etcd acknowledged is on the disks of most members. So the loss of a member loses no claim, and a fail-over does not
/// either. Needs etcd 3.4 or newer. One process has one connection to each member that it uses.
///
/// A record lives up to 2.5 seconds longer than its time to live, a record of hours up to 1/3600 longer, and never shorter. A change of
/// the leader may begin the time to live again.
#[derive(Clone)]
pub struct EtcdStore {
    client: Arc<Client>,
    leases: Arc<Leases>,
}

/// What a transaction does with a record that is the expected one.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// Stores a value. Without a time to live, the record expires when it would have.
    Put(&'a Bytes, Option<Duration>),
    Remove,
}

/// How long [`EtcdStore::connect`] waits for a member.
const CONNECT: Duration = Duration::from_secs(5);
/// A call that waits longer than this for its subscription polls without it.
const SUBSCRIBE: Duration = Duration::from_secs(1);
/// How often an operation begins again because its lease was lost or its record has changed.
const TRIES: u32 = 8;
/// A request has at most 1.5 MiB by default. A longer record is not sent twice in a request: it is read and compared here.
const LONG: usize = 256 << 10;
/// The most records on a page: their whole values are sent.
const MOST_LISTED: usize = 100;

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
    /// Costs two round trips.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the URL is wrong, no member answers within five seconds, there is no leader, or the user is refused.
    ///
    /// # Panics
    ///
    /// If it is not called in a runtime of tokio.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let Address {
            members,
            login,
            tls,
        } = Address::parse(url)?;
        let client = Client::new(&members, login, tls.as_ref());
        let client = Arc::new(
            client.map_err(|_| bad_url("has members or certificates that cannot be used"))?,
        );
        let leases = Arc::new(Leases::new(Arc::clone(&client)));
        let store = Self { client, leases };
        let answers = Range {
            count_only: true,
            ..Range::of(&Bytes::from_static(b"idempotence"))
        };
        match timeout(CONNECT, store.client.call(answers)).await {
            // The user may have only the keys of its handle.
            Err(_) => Err(store.error(&Status::unavailable("no answer in time"))),
            Ok(Err(status)) if status.code() != Code::PermissionDenied => Err(store.error(&status)),
            Ok(_) => Ok(store),
        }
    }

    fn error(&self, status: &Status) -> StoreError {
        failure::error(status).place(self.place())
    }

    /// The kind of store and the addresses of its members.
    fn place(&self) -> String {
        let members = self.client.members().iter();
        let members: Vec<_> = members.map(|member| member.address.as_str()).collect();
        format!("etcd {}", members.join(","))
    }

    /// What is stored under `key`.
    async fn stored(&self, key: &Bytes) -> Result<Option<KeyValue>, StoreError> {
        let reply = self.client.call(Range::of(key)).await;
        let mut found = reply.map_err(|status| self.error(&status))?.kvs;
        Ok(found.pop())
    }

    /// A lease for a record, and 0 for the present lease of a record.
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
    async fn swap(
        &self,
        key: &str,
        expected: &Bytes,
        change: Change<'_>,
    ) -> Result<Swap, StoreError> {
        let key = &Bytes::copy_from_slice(key.as_bytes());
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
        Err(self.restless())
    }

    /// A database that is full refuses transactions. It still reads, and prolongs a lease: also for the other records of the lease.
    async fn swap_when_full(
        &self,
        key: &Bytes,
        expected: &Bytes,
        change: Change<'_>,
        full: StoreError,
    ) -> Result<Swap, StoreError> {
        let stored = self.stored(key).await?;
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
                    .map_err(|status| self.error(&status))?;
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
    async fn remaining(&self, id: i64) -> Result<Option<Option<Duration>>, StoreError> {
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
    fn restless(&self) -> StoreError {
        let error = StoreError::new(
            StoreErrorKind::NotApplied,
            "the record or its lease changed each time",
        );
        error.place(self.place())
    }

    /// The values of a range, fewer if they do not fit in a reply.
    async fn range(&self, mut range: Range) -> Result<(Vec<KeyValue>, bool), StoreError> {
        loop {
            match self.client.call(range.clone()).await {
                Ok(reply) => return Ok((reply.kvs, reply.more)),
                Err(status) if status.code() == Code::OutOfRange && range.limit > 1 => {
                    range.limit /= 4;
                }
                Err(status) => return Err(self.error(&status)),
            }
            range.limit = range.limit.max(1);
        }
    }
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

/// The first key after all keys with this prefix.
fn end_of(prefix: &[u8]) -> Bytes {
    // UTF-8 has no byte 255, so the last byte can be raised. A zero byte is the end of all keys.
    match prefix.split_last() {
        Some((last, rest)) => [rest, &[last + 1]].concat().into(),
        None => Bytes::from_static(b"\0"),
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let key = &Bytes::copy_from_slice(key.as_bytes());
        for _ in 0..TRIES {
            let lease = match self.lease(ttl).await {
                Err(error) if error.kind() == StoreErrorKind::Full => {
                    let stored = self.stored(key).await?;
                    return stored.map_or(Err(error), |stored| Ok(taken(stored.value, value)));
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
                    let stored = self.stored(key).await?;
                    let error = self.error(&status);
                    return stored.map_or(Err(error), |stored| Ok(taken(stored.value, value)));
                }
                Err(status) => return Err(self.error(&status)),
            }
        }
        Err(self.restless())
    }

    /// One transaction stores the claim and the record of its number. Costs one round trip, and two if there is a last number.
    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        let [key, fence_key] = &[key, fence_key].map(|key| Bytes::copy_from_slice(key.as_bytes()));
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
            let answer = self.send(txn, &leases).await;
            let Some(answer) = answer.map_err(|status| self.error(&status))? else {
                continue;
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
        Err(self.restless())
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.swap(key, expected, Change::Put(value, Some(ttl)))
            .await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.swap(key, expected, Change::Remove).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let Some(KeyValue { value, lease, .. }) = self.stored(&key).await? else {
            return Ok(None);
        };
        let ttl = self.remaining(lease).await?;
        Ok(ttl.map(|ttl| Entry { value, ttl }))
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.swap(key, expected, Change::Put(value, None)).await
    }

    /// A watch of etcd, which also notifies of renewals and of the expiry.
    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        let create = Some(Range::of(&Bytes::copy_from_slice(key.as_bytes())));
        let open = async {
            let mut replies = self.client.stream(Watch { create }).await.ok()?;
            let created = replies.message().await.ok()??;
            (created.created && !created.canceled).then_some(replies)
        };
        let mut replies = timeout(SUBSCRIBE, open).await.ok()??;
        let (sender, receiver) = watch::channel(());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    reply = replies.message() => match reply {
                        Ok(Some(reply)) if !reply.canceled => {
                            if !reply.events.is_empty() {
                                sender.send_replace(());
                            }
                        }
                        _ => return,
                    }
                }
            }
        });
        Some(receiver)
    }

    /// Reads a range of keys. A cursor is the last key of the page before. Costs a round trip for the page, and one for each lease on it,
    /// at once.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        let from = match after {
            // The first key after a key is the key with a zero byte.
            Some(cursor) if cursor.as_str().starts_with(prefix) => format!("{}\0", cursor.as_str()),
            Some(_) => {
                let what = "the cursor is of another listing";
                let error = StoreError::new(StoreErrorKind::Misconfigured, what);
                return Err(error.reason("did not make this cursor").place(self.place()));
            }
            None if prefix.is_empty() => "\0".to_owned(),
            None => prefix.to_owned(),
        };
        let range = Range {
            key: from.into(),
            end: end_of(prefix.as_bytes()),
            limit: i64::try_from(most.clamp(1, MOST_LISTED)).unwrap_or(1),
            ..Range::default()
        };
        let (found, more) = self.range(range).await?;
        let last = found
            .last()
            .map(|last| String::from_utf8_lossy(&last.key).into_owned());
        let records = try_join_all(found.iter().map(async |found| {
            let ttl = self.remaining(found.lease).await?;
            // Keys of other programs may be no text.
            let key = String::from_utf8(found.key.to_vec()).ok();
            Ok::<_, StoreError>(ttl.zip(key).map(|(ttl, key)| Listed {
                key,
                head: Bytes::copy_from_slice(&found.value[..found.value.len().min(LISTED_BYTES)]),
                ttl,
            }))
        }));
        Ok(Some(Page {
            records: records.await?.into_iter().flatten().collect(),
            next: last.filter(|_| more).map(Cursor::new),
        }))
    }

    fn durability(&self) -> Durability {
        Durability::Quorum
    }

    fn resolution(&self, ttl: Duration) -> Duration {
        resolution(ttl)
    }

    async fn examine(&self, _key: &str, deadline: Duration) -> Vec<Finding> {
        doctor::examine(&self.client, deadline).await
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.client).finish()
    }
}
