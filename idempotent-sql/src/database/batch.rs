//! Changes of records as values, so that the changes of many callers can go in one transaction.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::port::sql::count;
use idempotent_runtime::store::{Claim, Count, StoreError, StoreErrorKind, Swap};

use super::counting::{Counted, Counting};
use super::records::{self, Records};
use super::statement::Parameters;
use super::syntax::Syntax;

/// A change of one record. It owns its arguments, because its caller may be dropped.
#[derive(Debug)]
pub struct ChangeRequest {
    pub(crate) key: Box<str>,
    pub(crate) change: Change,
}

/// What is changed. Times to live are in microseconds by the database's clock.
#[derive(Debug)]
pub(crate) enum Change {
    /// Stores `value` if no live record has the key.
    Claim { value: Bytes, micros: i64 },
    /// Sets the remaining time of `expected`.
    Renew { expected: Bytes, micros: i64 },
    /// Replaces `expected` by `value`.
    Replace {
        expected: Bytes,
        value: Bytes,
        micros: i64,
    },
    /// Replaces `expected` by `value` and does not change the remaining time.
    Exchange { expected: Bytes, value: Bytes },
    /// Removes `expected`.
    Remove { expected: Bytes },
    /// Counts an attempt in a window.
    Count { attempt: u128, micros: i64 },
}

/// What a change found.
#[derive(Debug)]
pub enum Found {
    /// The change is done.
    Done,
    /// No live record has the key.
    Absent,
    /// Another record has the key.
    Other(Bytes),
    /// The attempt is counted.
    Counted(Counted),
}

impl Found {
    /// The outcome of a claim.
    pub(crate) fn into_claim(self) -> Result<Claim, StoreError> {
        match self {
            Self::Done => Ok(Claim::Claimed),
            Self::Other(stored) => Ok(Claim::Taken(stored)),
            Self::Absent | Self::Counted(_) => Err(mixed_up()),
        }
    }

    /// The outcome of a change of a stored record.
    pub(crate) fn into_swap(self) -> Result<Swap, StoreError> {
        match self {
            Self::Done => Ok(Swap::Done),
            Self::Absent => Ok(Swap::Absent),
            Self::Other(stored) => Ok(Swap::Other(stored)),
            Self::Counted(_) => Err(mixed_up()),
        }
    }

    /// The outcome of a count.
    pub(crate) fn into_count(self) -> Result<Count, StoreError> {
        match self {
            Self::Counted(Counted { number, remaining }) => Ok(Count {
                attempt: number?,
                remaining: Duration::from_micros(remaining.unsigned_abs()),
            }),
            _ => Err(count::foreign()),
        }
    }
}

fn mixed_up() -> StoreError {
    let error = StoreError::new(StoreErrorKind::Unknown, "the answer is of another change");
    error.reason("gave the answer to another change, which is a fault of this crate")
}

impl ChangeRequest {
    pub(crate) fn new(key: &str, change: Change) -> Self {
        Self {
            key: key.into(),
            change,
        }
    }

    /// Sends the change as a statement that commits by itself, unless the connection is in a transaction. If the change is not
    /// done, a second statement reads the record. On MySQL a third statement claims a key whose record has expired, and if another
    /// caller was faster, a fourth reads the record of this caller.
    ///
    /// `None`: the record changed between the statements. The change may be sent again.
    pub(crate) async fn send<DB: Records + Counting>(
        &self,
        connection: &mut DB::Connection,
        limit: i32,
    ) -> sqlx::Result<Option<Found>> {
        let key = &*self.key;
        let all = DB::STATEMENTS;
        let values = Parameters::new(key);
        let (statement, values) = match &self.change {
            Change::Claim { value, micros } => {
                return self
                    .send_claim::<DB>(connection, value, *micros, limit)
                    .await;
            }
            Change::Count { attempt, micros } => {
                let counted = DB::count(connection, key, *attempt, *micros).await?;
                return Ok(counted.map(Found::Counted));
            }
            Change::Renew { expected, micros } => {
                (&all.renew, values.expected(expected).micros(*micros))
            }
            Change::Replace {
                expected,
                value,
                micros,
            } => (
                &all.replace,
                values.expected(expected).with(value).micros(*micros),
            ),
            Change::Exchange { expected, value } => {
                (&all.exchange, values.expected(expected).with(value))
            }
            Change::Remove { expected } => (&all.remove, values.expected(expected)),
        };
        if DB::change(connection, statement, values).await? == 1 {
            return Ok(Some(Found::Done));
        }
        let stored = records::get::<DB>(connection, key, limit).await?;
        Ok(self.find(stored.map(|(value, _)| value)))
    }

    async fn send_claim<DB: Records>(
        &self,
        connection: &mut DB::Connection,
        value: &[u8],
        micros: i64,
        limit: i32,
    ) -> sqlx::Result<Option<Found>> {
        let key = &*self.key;
        if records::claim::<DB>(connection, key, value, micros).await? {
            return Ok(Some(Found::Done));
        }
        let mut stored = records::get::<DB>(connection, key, limit).await?;
        if stored.is_none()
            && let Some(is_claimed) = DB::claim_expired(connection, key, value, micros).await?
        {
            if is_claimed {
                return Ok(Some(Found::Done));
            }
            stored = records::get::<DB>(connection, key, limit).await?;
        }
        Ok(self.find(stored.map(|(value, _)| value)))
    }

    /// What a change found that is not done, if `stored` is the live record afterwards. `None`: the change may be sent again.
    pub(crate) fn find(&self, stored: Option<Bytes>) -> Option<Found> {
        let (expected, value) = match &self.change {
            Change::Claim { value, .. } => (None, Some(value)),
            Change::Renew { expected, .. } | Change::Remove { expected } => (Some(expected), None),
            Change::Replace {
                expected, value, ..
            }
            | Change::Exchange { expected, value } => (Some(expected), Some(value)),
            Change::Count { .. } => return None,
        };
        match stored {
            None => expected.map(|_| Found::Absent),
            Some(stored) if Some(&stored) == expected => None,
            // An earlier attempt of this call wrote the record, and its reply was lost.
            Some(stored) if Some(&stored) == value => Some(Found::Done),
            Some(stored) => Some(Found::Other(stored)),
        }
    }

    pub(crate) fn is_renewal(&self) -> bool {
        matches!(self.change, Change::Renew { .. })
    }
}

/// How a database makes many changes with one commit.
pub trait Batch: Records + Counting + Syntax {
    /// The most changes that callers send themselves at a time, each on a connection of the pool. With 3, an end in
    /// the background does not hold up the claim and the end of the next call, if there are no other calls.
    const INLINE: usize = 3;

    /// Whether the error shows that this server cannot make batches.
    fn lacks_batches(_: &sqlx::Error) -> bool {
        false
    }

    /// Makes changes, and commits them together. Returns what each of them found, in their order. `None`: the change must be
    /// sent alone, because it was not made and the reason is not known, for example because another transaction has locked the
    /// row.
    ///
    /// The changes are sorted by key. Only counts may have the same key.
    fn change_many(
        connection: &mut Self::Connection,
        requests: &[&ChangeRequest],
        limit: i32,
    ) -> impl Future<Output = Result<Vec<Option<Found>>, Failed>> + Send;
}

/// Why none of the changes of a batch has an answer.
#[derive(Debug)]
pub struct Failed {
    pub(crate) error: sqlx::Error,
    pub(crate) stage: Stage,
    /// Whether the connection must be closed, because its client and the database disagree about its transaction.
    pub(crate) is_unusable: bool,
}

/// The stage in which a transaction failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The transaction has not begun.
    Begin,
    /// The change at this place failed.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        expect(dead_code, reason = "MySQL sends all changes together")
    )]
    Change(usize),
    /// One of the changes failed. If there is no answer, they may be committed.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        expect(dead_code, reason = "SQLite has no statement for many changes")
    )]
    Changes,
    /// The commit failed. Its changes may be committed.
    Commit,
}

impl Stage {
    /// The failure in this stage.
    pub(crate) fn failed(self, error: sqlx::Error) -> Failed {
        Failed {
            error,
            stage: self,
            is_unusable: false,
        }
    }
}
