//! Listing the records of calls, and finding one by the digits of a log line.

use std::time::{Duration, SystemTime};

use super::peek::{Peek, endpoint_of, state_of};
use crate::error::{DuplicateState, Error, Failure, Site, Subject};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;
use crate::key::kind::RecordKind;
use crate::key::{hex, kind};
use crate::protocol::retry::StoreAttempt;
use crate::protocol::shared::Shared;
use crate::record::call::Record;
use crate::record::key_tag::KeyTag;
use crate::record::keys_digest::KeysDigest;
use crate::store::{Cursor, Durability, Key, Listed, Page};

/// A page of the records of calls: the answer of [`Idempotency::list`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listing {
    /// The records, in no particular order.
    pub records: Vec<ListedCall>,
    /// Where the next page begins. `None` if there is no next page.
    pub next: Option<Cursor>,
}

/// The record of a call in a [`Listing`], read without its result.
#[derive(Debug, Clone)]
pub struct ListedCall {
    endpoint: Endpoint,
    fingerprint: Fingerprint,
    in_tx: bool,
    /// `None` if another program or another version wrote the record.
    line: Option<ListedLine>,
    remaining: Option<Duration>,
}

#[derive(Debug, Clone)]
struct ListedLine {
    state: DuplicateState,
    holder: String,
    since: SystemTime,
    lasts: Duration,
    keys_digest: Option<KeysDigest>,
}

impl Idempotency {
    /// Lists records of calls whose endpoints begin with `names`, which may be empty: the first page, or the page `after` a
    /// [`Listing::next`]. `None` if the store cannot list.
    ///
    /// A page has about `most` records, or fewer, or none although a page follows: `most` limits the work of a page. A record may be listed
    /// twice. [`Page`] has the promises, and the permissions that Redis needs are on the page of `RedisStore`. After the calls in the
    /// store of the handle come those of transactions (`tx`, `run_in`), if the store is a database.
    ///
    /// Changes nothing. Round trips: one, on Redis two or three. Redis reads the names of all keys in the course of a listing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let mut after = None;
    /// while let Some(page) = idempotency.list("orders.", after.as_ref(), 100).await? {
    ///     for call in page.records {
    ///         println!("{} {} {:?}", call.endpoint(), call.digits(), call.state());
    ///     }
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] or [`Error::Misconfigured`] if the store cannot serve the request, or if `after` is of another store.
    pub async fn list(
        &self,
        names: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Listing>, Error> {
        let (in_tx, after) = match after.map(Cursor::as_str) {
            None => (false, None),
            Some(text) => match text.strip_prefix(IN_TX) {
                None => (false, Some(Cursor::new(text))),
                Some("") => (true, None),
                Some(text) => (true, Some(Cursor::new(text))),
            },
        };
        let site = || Site::of(Subject::Peek, Endpoint::named("*"));
        let before = self.before_names(in_tx);
        let prefix = format!("{before}{}", names_in_keys(names));
        let Some(page) = self.page(&prefix, after.as_ref(), most, site).await? else {
            return Ok(None);
        };
        let records = page.records.iter();
        let read = |record| ListedCall::read(self.shared(), record, &before, in_tx);
        let records = records.filter_map(read);
        let next = match page.next {
            Some(next) if in_tx => Some(Cursor::new(format!("{IN_TX}{next}"))),
            None if !in_tx && self.shared().store().durability() == Durability::Sql => {
                Some(Cursor::new(IN_TX))
            }
            next => next,
        };
        Ok(Some(Listing {
            records: records
                .filter(|call| call.endpoint().starts_with(names))
                .collect(),
            next,
        }))
    }

    /// Reads the records of the calls of `endpoint` whose keys begin with these hexadecimal digits, for example the 8 digits of a log line.
    /// Also finds calls in transactions. `None` if the store cannot list.
    ///
    /// Two keys may have equal first digits, though rarely. [`forget`](Self::forget) frees one of them. Records of other programs are
    /// left out.
    ///
    /// Changes nothing. Round trips: those of a whole [listing](Self::list) of this endpoint, with large pages, and one for each record.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let found = idempotency.peek_digits("orders.pay", "9e107d9d").await?;
    /// for stuck in found.unwrap_or_default() {
    ///     println!("{} holds it since {:?}", stuck.holder(), stuck.since());
    ///     idempotency.forget(&stuck).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if the name is not a valid endpoint name, or `digits` are not 4 to 64 hexadecimal digits;
    /// [`Error::ForeignRecord`] if other programs wrote all the records; else as [`peek`](Self::peek).
    pub async fn peek_digits(
        &self,
        endpoint: &str,
        digits: &str,
    ) -> Result<Option<Vec<Peek>>, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let digits = digits.to_ascii_lowercase();
        if !(4..=64).contains(&digits.len()) || !hex::is_hex(digits.as_bytes()) {
            let what =
                "the digits of a key are 4 to 64 hexadecimal digits, such as the 8 of a log line";
            let site = Site::of(Subject::Peek, endpoint);
            return Err(Error::InvalidKey(Failure::new(site, what, None)));
        }
        let mut found = Vec::new();
        let is_sql = self.shared().store().durability() == Durability::Sql;
        for in_tx in [false, true].into_iter().filter(|in_tx| is_sql || !in_tx) {
            let Some(calls) = self.with_digits(&endpoint, &digits, in_tx).await? else {
                return Ok(None);
            };
            found.extend(calls);
        }
        Ok(Some(found))
    }

    async fn with_digits(
        &self,
        endpoint: &Endpoint,
        digits: &str,
        in_tx: bool,
    ) -> Result<Option<Vec<Peek>>, Error> {
        let before = self.before_names(in_tx);
        let prefix = format!("{before}{}:{digits}", endpoint.in_key());
        let site = || Site::of(Subject::Peek, endpoint.clone());
        let (mut calls, mut after): (Vec<ListedCall>, _) = (Vec::new(), None);
        loop {
            let Some(page) = self.page(&prefix, after.as_ref(), 1000, site).await? else {
                return Ok(None);
            };
            for record in &page.records {
                let call = ListedCall::read(self.shared(), record, &before, in_tx);
                // A record may be listed twice.
                let is_new = |call: &ListedCall| {
                    let mut known = calls.iter();
                    known.all(|known| known.fingerprint != call.fingerprint)
                };
                if let Some(call) = call.filter(is_new) {
                    calls.push(call);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let (mut found, mut foreign) = (Vec::new(), None);
        for call in &calls {
            match self.peek_listed(call).await {
                Err(error @ Error::ForeignRecord(_)) => foreign = Some(error),
                record => found.extend(record?),
            }
        }
        match foreign {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(Some(found)),
        }
    }

    /// The whole record of a listed call. `None` if its key has become free.
    async fn peek_listed(&self, call: &ListedCall) -> Result<Option<Peek>, Error> {
        let key = if call.in_tx { key_in_tx } else { Shared::key };
        self.read(call.endpoint.clone(), call.fingerprint, key)
            .await
    }

    /// The text of keys before the name of an endpoint.
    fn before_names(&self, in_tx: bool) -> String {
        if in_tx {
            RecordKind::Tx.key(self.shared().prefix(), "")
        } else {
            format!("{}:", self.shared().prefix())
        }
    }

    async fn page(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
        site: impl FnOnce() -> Site,
    ) -> Result<Option<Page>, Error> {
        let page = self.shared().store().list(prefix, after, most);
        let page = StoreAttempt::new(page, self.shared().deadline()).await;
        page.map_err(|error| Error::store_operation(site(), error))
    }
}

/// The key of a call in a transaction, also in a program without databases.
fn key_in_tx(shared: &Shared, endpoint: &Endpoint, fingerprint: &Fingerprint) -> Key {
    Key::new(&kind::key_in_tx(shared.prefix(), endpoint, fingerprint))
}

/// The text of a cursor before the cursor of the store, if calls in transactions are listed.
const IN_TX: &str = "tx/";

/// The beginning of `names` that keys have in the same form.
fn names_in_keys(names: &str) -> &str {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let end = names.find(|char| !is_plain(char));
    &names[..end.unwrap_or(names.len())]
}

impl ListedCall {
    /// Reads a listed record. `None` if its key is not the key of a call.
    fn read(shared: &Shared, record: &Listed, before: &str, in_tx: bool) -> Option<Self> {
        let (name, digits) = record.key.strip_prefix(before)?.rsplit_once(':')?;
        let endpoint = Endpoint::called(name).ok()?;
        let line = Record::read(&record.head)
            .filter(|line| line.may_be_of(|| KeyTag::for_key(&record.key)))
            .map(|line| ListedLine {
                state: state_of(shared, &line, record.ttl),
                holder: line.holder().to_owned(),
                since: line.since,
                lasts: line.ttl(),
                keys_digest: line.keys(),
            });
        Some(Self {
            endpoint,
            fingerprint: Fingerprint::read(digits)?,
            in_tx,
            line,
            remaining: record.ttl,
        })
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    /// The first 8 hexadecimal digits of the key's fingerprint, as the log has them. Two keys may have equal first digits.
    pub fn digits(&self) -> String {
        self.fingerprint.digits()
    }

    /// The key's whole fingerprint. The endpoint, the fingerprint and [`in_tx`](Self::in_tx) tell two listed calls apart.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether the row was written in the transaction of its call: `tx`, `run_in`.
    pub fn in_tx(&self) -> bool {
        self.in_tx
    }

    /// The state of the call. `None` if another program, or another version of this crate, wrote the record.
    pub fn state(&self) -> Option<DuplicateState> {
        self.line.as_ref().map(|line| line.state)
    }

    /// The process that made the call, as `host:pid`.
    pub fn holder(&self) -> Option<&str> {
        self.line.as_ref().map(|line| &*line.holder)
    }

    /// When the call was made, or when it ended if it is done, by the clock of its machine.
    pub fn since(&self) -> Option<SystemTime> {
        self.line.as_ref().map(|line| line.since)
    }

    /// As [`Peek::lasts`].
    pub fn lasts(&self) -> Option<Duration> {
        self.line.as_ref().map(|line| line.lasts)
    }

    /// As [`Peek::keys_digest`].
    pub fn keys_digest(&self) -> Option<&str> {
        self.line
            .as_ref()?
            .keys_digest
            .as_ref()
            .map(KeysDigest::as_str)
    }

    /// The time until the record expires if it is not renewed. `None` if it never expires.
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}
