//! Claims of several keys by one statement.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use idempotent_driver::port::failure;
use idempotent_runtime::port::sql::micros;
use idempotent_runtime::store::{ClaimAll, ClaimAny, StoreError, StoreErrorKind};
use sqlx::Pool;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::attempts::Attempts;
use crate::database::Database;
use crate::database::checkout::Checkout;
use crate::database::records::{self, FoundKey};

type Claims = Arc<[(Box<str>, Bytes)]>;

/// Claims all keys or none. If the statement claims none, one more statement for each key looks for the first key that has another
/// record, of which it reads the first `most` bytes.
pub(super) async fn claim_all<DB: Database>(
    pool: &Pool<DB>,
    late: &Arc<LateClaims>,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
    most: i32,
) -> Result<ClaimAll, StoreError> {
    let claims = owned(claims);
    let mut attempts = Attempts::new(pool);
    loop {
        let connection = attempts.acquire().await?;
        let send = send_all(connection, Arc::clone(&claims), micros(ttl), most);
        let (connection, answer) = SentClaim::new(send.boxed(), &claims, late).await;
        let is_unclear = attempts.may_be_applied() && matches!(answer, Ok(ClaimAll::NotTogether));
        if let Some(answer) = attempts.resolve(connection, answer.map(Some))? {
            if is_unclear {
                return Err(unclear(pool));
            }
            return Ok(answer);
        }
    }
}

/// Claims the first free key. Reads the first `most` bytes of other records.
pub(super) async fn claim_any<DB: Database>(
    pool: &Pool<DB>,
    late: &Arc<LateClaims>,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
    most: i32,
) -> Result<ClaimAny, StoreError> {
    if !DB::CLAIMS_ANY {
        return Ok(ClaimAny::NotTogether);
    }
    let claims = owned(claims);
    let mut attempts = Attempts::new(pool);
    loop {
        let connection = attempts.acquire().await?;
        let send = send_any(connection, Arc::clone(&claims), micros(ttl), most);
        let (connection, found) = SentClaim::new(send.boxed(), &claims, late).await;
        let answer = found.map(|found| answer(found, claims.len()));
        let answer = attempts.resolve(connection, answer)?;
        // An attempt without an answer may store a record later, under another key than the next attempt.
        if attempts.may_be_applied() {
            return Err(unclear(pool));
        }
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

fn unclear<DB: Database>(pool: &Pool<DB>) -> StoreError {
    let what = "an attempt without an answer may still be applied";
    StoreError::new(StoreErrorKind::Unknown, what)
        .reason("did not answer the claim of several keys")
        .place(failure::place(pool))
}

/// `None` if a key was free, and other callers have claimed it.
fn answer(found: Vec<FoundKey>, keys: usize) -> Option<ClaimAny> {
    if let Some((own, _)) = found.iter().find(|(_, other)| other.is_none()) {
        return Some(ClaimAny::Claimed(*own));
    }
    let others: Vec<_> = found.into_iter().filter_map(|(_, other)| other).collect();
    (others.len() == keys).then_some(ClaimAny::Taken(others))
}

fn owned(claims: &[(&str, &Bytes)]) -> Claims {
    let claims = claims.iter();
    let claims = claims.map(|(key, value)| ((*key).into(), (*value).clone()));
    claims.collect()
}

fn borrowed(claims: &Claims) -> Vec<(&str, &Bytes)> {
    claims.iter().map(|(key, value)| (&**key, value)).collect()
}

/// The claims whose callers were dropped before the answer, and which may store their records later: for example those that wait for a
/// transaction that is rolled back. Each has a receiver that fails when the claim has ended.
#[derive(Debug, Default)]
pub(super) struct LateClaims(Mutex<Vec<(Claims, watch::Receiver<()>)>>);

impl LateClaims {
    /// Waits for the end of the claim that stores this record. So a removal of the record comes after it.
    pub(super) async fn wait_for(&self, record: &Bytes) {
        let claim = {
            let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            late.retain(|(_, end)| end.has_changed().is_ok());
            let mut late = late.iter();
            let claim = late.find(|(claims, _)| claims.iter().any(|(_, value)| value == record));
            claim.map(|(_, end)| end.clone())
        };
        if let Some(mut end) = claim {
            // It only fails, because nothing is sent.
            let _ = end.changed().await;
        }
    }
}

type Answered<DB, T> = (Checkout<DB>, sqlx::Result<T>);

/// How long a claim without a caller keeps its connection: longer than the `lock_timeout` of the store's own sessions. Without
/// a limit such claims would take all connections of the pool if the server becomes silent.
const LONGEST: Duration = Duration::from_secs(5);

/// A claim that was sent. If it is dropped, it runs to its end in the background, but not for longer than [`LONGEST`].
struct SentClaim<DB: Database, T: Send + 'static> {
    answer: Option<BoxFuture<'static, Answered<DB, T>>>,
    claims: Claims,
    late: Arc<LateClaims>,
}

impl<DB: Database, T: Send + 'static> SentClaim<DB, T> {
    fn new(
        answer: BoxFuture<'static, Answered<DB, T>>,
        claims: &Claims,
        late: &Arc<LateClaims>,
    ) -> Self {
        Self {
            answer: Some(answer),
            claims: Arc::clone(claims),
            late: Arc::clone(late),
        }
    }
}

impl<DB: Database, T: Send + 'static> Future for SentClaim<DB, T> {
    type Output = Answered<DB, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = match &mut self.answer {
            Some(answer) => ready!(answer.poll_unpin(cx)),
            None => return Poll::Pending,
        };
        self.answer = None;
        Poll::Ready(answered)
    }
}

impl<DB: Database, T: Send + 'static> Drop for SentClaim<DB, T> {
    fn drop(&mut self) {
        if let (Some(answer), Ok(runtime)) = (self.answer.take(), Handle::try_current()) {
            let (running, end) = watch::channel(());
            let mut late = self.late.0.lock().unwrap_or_else(PoisonError::into_inner);
            late.push((Arc::clone(&self.claims), end));
            runtime.spawn(async move {
                if let Ok((connection, Ok(_))) = timeout(LONGEST, answer).await {
                    connection.release();
                }
                drop(running);
            });
        }
    }
}

/// If no key has another record afterwards, the caller claims one key after another.
async fn send_all<DB: Database>(
    mut connection: Checkout<DB>,
    claims: Claims,
    micros: i64,
    most: i32,
) -> Answered<DB, ClaimAll> {
    let answer = async {
        if DB::claim_all(&mut connection, &borrowed(&claims), micros).await? {
            return Ok(ClaimAll::Claimed);
        }
        let mut own = 0;
        for (at, (key, value)) in claims.iter().enumerate() {
            match records::get::<DB>(&mut connection, key, most).await? {
                Some((stored, _)) if stored != *value => return Ok(ClaimAll::Taken(at, stored)),
                Some(_) => own += 1,
                None => {}
            }
        }
        if own == claims.len() {
            return Ok(ClaimAll::Claimed);
        }
        Ok(ClaimAll::NotTogether)
    }
    .await;
    (connection, answer)
}

async fn send_any<DB: Database>(
    mut connection: Checkout<DB>,
    claims: Claims,
    micros: i64,
    most: i32,
) -> Answered<DB, Vec<FoundKey>> {
    let found = DB::claim_any(&mut connection, &borrowed(&claims), micros, most).await;
    (connection, found)
}
