//! The attribute with `tx` and `run_in` behave alike. `run` also behaves like them, except for the transaction.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use idempotence::sql::migrate;
use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
use idempotence::sql::sqlx::{Executor, Sqlite, SqliteConnection, SqlitePool, Transaction};
use idempotence::{Duplicate, Error, Idempotency, MemoryStore, idempotent};
use serde::{Deserialize, Serialize};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

const WEEK: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Trouble {
    Refused(String),
    Declined,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error.code().to_owned())
    }
}

type Answer = Result<i64, Trouble>;

async fn pool() -> SqlitePool {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    migrate(&pool).await.unwrap();
    pool
}

/// The body of the calls in this file. Records its scope and its span.
async fn body(noted: &Noted, tx: Option<&mut SqliteConnection>, cents: i64) -> Answer {
    if let Some(tx) = tx {
        tx.execute("SELECT 1").await.unwrap();
    }
    noted.note();
    if cents < 0 {
        return Err(Trouble::Declined);
    }
    Ok(cents)
}

/// The records of the bodies: the handle of their scope, and their span.
#[derive(Debug, Clone, Default)]
struct Noted(Arc<Mutex<Vec<Found>>>);

type Found = (Option<String>, Option<&'static str>);

impl Noted {
    fn note(&self) {
        let handle = Idempotency::current().map(|handle| format!("{handle:?}"));
        let span = ENTERED.with_borrow(|entered| entered.last().copied());
        self.0.lock().unwrap().push((handle, span));
    }

    fn take(&self) -> Vec<Found> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The forms of the same call, with the options `payload`, `replay` and `replay_err`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Attribute,
    RunIn,
    Run,
}

const FORMS: [Form; 3] = [Form::Attribute, Form::RunIn, Form::Run];

#[idempotent(
    name = "pay",
    key = "order",
    payload = "cents",
    ttl = "7d",
    replay = true,
    replay_err = |error: &Trouble| *error == Trouble::Declined,
    using = handle,
    tx = tx
)]
async fn pay(
    handle: &Idempotency,
    tx: &mut Transaction<'_, Sqlite>,
    noted: &Noted,
    order: i64,
    cents: i64,
) -> Answer {
    body(noted, Some(tx), cents).await
}

impl Form {
    async fn pay(
        self,
        handle: &Idempotency,
        pool: &SqlitePool,
        noted: &Noted,
        order: i64,
        cents: i64,
    ) -> Answer {
        let call = handle.call("pay").key(&order).payload(&cents).ttl(WEEK);
        let call = call
            .replay::<Answer, _>()
            .replay_err(|error: &Trouble| *error == Trouble::Declined);
        let mut tx = pool.begin().await.unwrap();
        let paid = match self {
            Self::Attribute => pay(handle, &mut tx, noted, order, cents).await,
            Self::RunIn => {
                call.run_in(&mut tx, async |tx| body(noted, Some(tx), cents).await)
                    .await
            }
            Self::Run => call.run(body(noted, None, cents)).await,
        };
        tx.commit().await.unwrap();
        paid
    }
}

fn handle(prefix: &str) -> Idempotency {
    Idempotency::builder(MemoryStore::new())
        .prefix(prefix)
        .build()
        .unwrap()
}

#[tokio::test]
async fn results_and_chosen_errors_are_replayed_and_another_payload_is_refused() {
    for form in FORMS {
        let (handle, pool, noted) = (handle("shop"), pool().await, Noted::default());
        let pay = async |order, cents| form.pay(&handle, &pool, &noted, order, cents).await;
        for round in 0..2 {
            assert_eq!(pay(1, 500).await, Ok(500), "{form:?}");
            assert_eq!(pay(2, -1).await, Err(Trouble::Declined), "{form:?}");
            assert_eq!(noted.take().len(), 2 - 2 * round, "{form:?}");
        }
        let mismatch = Trouble::Refused("payload_mismatch".to_owned());
        assert_eq!(pay(1, 501).await, Err(mismatch.clone()), "{form:?}");
        assert_eq!(pay(2, -2).await, Err(mismatch), "{form:?}");
    }
}

/// A call of one form is a duplicate of an equal call of another form.
#[tokio::test]
async fn the_attribute_and_run_in_share_their_rows() {
    let (handle, pool, noted) = (handle("shop"), pool().await, Noted::default());
    assert_eq!(
        Form::Attribute.pay(&handle, &pool, &noted, 1, 500).await,
        Ok(500)
    );
    assert_eq!(
        Form::RunIn.pay(&handle, &pool, &noted, 1, 500).await,
        Ok(500)
    );
    assert_eq!(
        Form::RunIn.pay(&handle, &pool, &noted, 2, -1).await,
        Err(Trouble::Declined)
    );
    assert_eq!(
        Form::Attribute.pay(&handle, &pool, &noted, 2, -1).await,
        Err(Trouble::Declined)
    );
    assert_eq!(noted.take().len(), 2);
}

#[idempotent(
    name = "answer",
    key = "order",
    ttl = "7d",
    on_duplicate = |duplicate: Duplicate| Ok(-i64::from(duplicate.age() < WEEK)),
    using = handle,
    tx = tx
)]
async fn answered(handle: &Idempotency, tx: &mut Transaction<'_, Sqlite>, order: i64) -> Answer {
    tx.execute("SELECT 1").await.unwrap();
    Ok(order)
}

#[tokio::test]
async fn a_duplicate_is_answered() {
    for form in FORMS {
        let (handle, pool) = (handle("shop"), pool().await);
        for expected in [7, -1, -1] {
            let call = handle.call("answer").key(&7_i64).ttl(WEEK);
            let call =
                call.on_duplicate(|duplicate: Duplicate| Ok(-i64::from(duplicate.age() < WEEK)));
            let mut tx = pool.begin().await.unwrap();
            let answer: Answer = match form {
                Form::Attribute => answered(&handle, &mut tx, 7).await,
                Form::RunIn => call.run_in(&mut tx, async |_| Ok(7)).await,
                Form::Run => call.run(async { Ok(7) }).await,
            };
            assert_eq!(answer, Ok(expected), "{form:?}");
            tx.commit().await.unwrap();
        }
    }
}

/// A call uses the handle of its scope, or the handle that it names. Its body runs in the scope of the caller.
#[tokio::test]
async fn a_body_runs_in_the_scope_of_its_caller_and_in_the_span_of_its_call() {
    record_spans();
    for form in FORMS {
        let (named, scoped) = (handle("named"), handle("scoped"));
        let (pool, noted) = (pool().await, Noted::default());
        form.pay(&named, &pool, &noted, 1, 500).await.unwrap();
        let call = form.pay(&named, &pool, &noted, 2, 500);
        scoped.scope(call).await.unwrap();
        let span = Some("idempotent");
        let scope = Some(format!("{scoped:?}"));
        assert_eq!(noted.take(), [(None, span), (scope, span)], "{form:?}");
    }
}

/// The work of a function before it returns its future is a part of the call.
#[tokio::test]
async fn work_before_the_future_of_a_body_is_in_the_span_of_the_call() {
    record_spans();
    let (handle, pool, noted) = (handle("shop"), pool().await, Noted::default());
    let mut tx = pool.begin().await.unwrap();
    let call = handle.call("pay").key(&1).ttl(WEEK);
    let body = |_: &mut SqliteConnection| {
        noted.note();
        async { Answer::Ok(7) }
    };
    call.run_in(&mut tx, body).await.unwrap();
    assert_eq!(noted.take(), [(None, Some("idempotent"))]);
}

/// A call with borrowed arguments is `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_can_be_spawned() {
    for form in FORMS {
        let (handle, pool, noted) = (handle("shop"), pool().await, Noted::default());
        let call = async move { form.pay(&handle, &pool, &noted, 1, 500).await };
        assert_eq!(tokio::spawn(call).await.unwrap(), Ok(500), "{form:?}");
    }
}

thread_local! {
    /// The spans that this thread has entered and not left.
    static ENTERED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Installs one subscriber for all tests of the process, at the first call.
fn record_spans() {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| tracing::subscriber::set_global_default(Spans::default()).unwrap());
}

/// Records which spans any test enters and leaves. A subscriber for one test would miss spans that the subscriber of another
/// test disabled.
#[derive(Debug, Default)]
struct Spans(Mutex<Vec<&'static str>>);

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("idempot")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut made = self.0.lock().unwrap();
        made.push(span.metadata().name());
        Id::from_u64(made.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, span: &Id) {
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        let name = self.0.lock().unwrap()[place];
        ENTERED.with_borrow_mut(|entered| entered.push(name));
    }

    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }
}
