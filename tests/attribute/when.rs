//! The option `when`: which calls are guarded, and what the unguarded calls do.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::testkit::CountingStore;
use idempotence::{Error, Event, Idempotency, KeyPart, MemoryStore, RequestId, idempotent};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

/// A handle with a counting store, and the events that its observer got.
struct Shop {
    store: CountingStore<MemoryStore>,
    events: Arc<Mutex<Vec<String>>>,
    idempotency: Idempotency,
}

impl Shop {
    fn open() -> Self {
        let store = CountingStore::new(MemoryStore::new());
        let events = Arc::<Mutex<Vec<String>>>::default();
        let sink = Arc::clone(&events);
        let idempotency = Idempotency::builder(store.clone())
            .observer(move |event: &Event<'_>| {
                assert_eq!(event.kind().is_end(), event.took().is_some(), "{event}");
                sink.lock().unwrap().push(event.kind().to_string());
            })
            .build();
        Self {
            store,
            events,
            idempotency: idempotency.unwrap(),
        }
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    fn sent(&self) -> usize {
        self.store.counts().total()
    }
}

fn id(text: &str) -> Option<RequestId> {
    RequestId::new(text).ok()
}

#[idempotent(
    name = "when.place",
    key = "user_id, request_id",
    ttl = "1d",
    replay = true,
    when = request_id.is_some()
)]
async fn place(user_id: u64, request_id: Option<RequestId>, order: &str) -> Result<String, Error> {
    yield_now().await;
    Ok(format!("{user_id}: {order}"))
}

#[tokio::test(start_paused = true)]
async fn three_orders_without_an_id_are_three_orders() {
    let shop = Shop::open();
    shop.idempotency
        .scope(async {
            for order in ["tea", "milk", "tea"] {
                assert_eq!(place(7, None, order).await.unwrap(), format!("7: {order}"));
            }
            // Two calls at the same time.
            let (tea, milk) = tokio::join!(place(7, None, "tea"), place(7, None, "milk"));
            assert_eq!((&*tea.unwrap(), &*milk.unwrap()), ("7: tea", "7: milk"));
        })
        .await;
    assert_eq!(shop.sent(), 0);
    assert_eq!(shop.events(), ["bypassed"; 5]);
}

#[tokio::test(start_paused = true)]
async fn an_order_with_an_id_is_one_order() {
    let shop = Shop::open();
    shop.idempotency
        .scope(async {
            assert_eq!(place(7, id("a"), "tea").await.unwrap(), "7: tea");
            assert_eq!(place(7, id("a"), "milk").await.unwrap(), "7: tea");
            assert_eq!(place(7, id("b"), "milk").await.unwrap(), "7: milk");
        })
        .await;
    assert_eq!(shop.events(), ["executed", "replayed", "executed"]);
}

mod with_axum {
    use super::*;
    use idempotence::Once;
    use idempotence::integrations::axum::IdempotencyKey;

    #[idempotent(
        name = "when.post",
        key = (user_id, idempotency_key.as_ref()),
        ttl = "1d",
        replay = true,
        when = idempotency_key.is_some()
    )]
    async fn post(
        user_id: u64,
        idempotency_key: Option<IdempotencyKey>,
        cents: u64,
    ) -> Result<Once<u64>, Error> {
        Ok(Once::Executed(user_id + cents))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_the_header_are_no_duplicates() {
        let shop = Shop::open();
        let key = || Some(IdempotencyKey("a".to_owned()));
        shop.idempotency
            .scope(async {
                assert_eq!(post(7, None, 1).await.unwrap(), Once::Executed(8));
                assert_eq!(post(7, None, 2).await.unwrap(), Once::Executed(9));
                assert_eq!(post(7, key(), 1).await.unwrap(), Once::Executed(8));
                assert_eq!(post(7, key(), 2).await.unwrap(), Once::Replayed(8));
            })
            .await;
        let expected = ["bypassed", "bypassed", "executed", "replayed"];
        assert_eq!(shop.events(), expected);
    }
}

#[idempotent(
    key = (request_id.expect("a guarded call has an id")),
    ttl = "1d",
    when = request_id.is_some()
)]
async fn unwrapped(request_id: Option<&str>) -> Result<(), Error> {
    let _ = request_id;
    Ok(())
}

#[tokio::test]
async fn an_unguarded_call_does_not_evaluate_its_key() {
    let shop = Shop::open();
    shop.idempotency
        .scope(async {
            unwrapped(None).await.unwrap();
            unwrapped(Some("a")).await.unwrap();
            let again = unwrapped(Some("a")).await.unwrap_err();
            assert_eq!(again.code(), "already_done");
        })
        .await;
}

#[idempotent(key = (), ttl = "1d", error = |error| error.code(), when = id.is_some())]
async fn fails(id: Option<u64>) -> Result<u64, &'static str> {
    id.ok_or("no id")
}

#[tokio::test]
async fn an_unguarded_call_returns_the_error_of_its_body() {
    let shop = Shop::open();
    let failed = shop.idempotency.scope(fails(None)).await;
    assert_eq!(failed, Err("no id"));
    assert_eq!(shop.events(), ["bypassed"]);
}

#[idempotent(key = "id", ttl = "1d", on_cancel = "release", when = id.is_some())]
async fn stuck(id: Option<u64>, panics: bool) -> Result<(), Error> {
    assert!(!panics, "this test wants a panic, with {id:?}");
    std::future::pending().await
}

#[tokio::test]
async fn an_unguarded_call_that_is_dropped_or_panics_ends_once_and_sends_nothing() {
    let shop = Shop::open();
    let call = shop.idempotency.scope(stuck(None, false));
    assert!(timeout(Duration::ZERO, call).await.is_err());
    assert_eq!(shop.events(), ["cancelled"]);
    let idempotency = shop.idempotency.clone();
    let call = tokio::spawn(async move { idempotency.scope(stuck(None, true)).await });
    assert!(call.await.unwrap_err().is_panic());
    assert_eq!(shop.events(), ["panicked"]);
    assert_eq!(shop.sent(), 0);
}

#[idempotent(key = "id", ttl = "1d", on_cancel = "finish", when = id.is_some())]
async fn finishing(id: Option<u64>, go: Arc<Notify>, done: Arc<Notify>) -> Result<(), Error> {
    let _ = id;
    go.notified().await;
    done.notify_one();
    Ok(())
}

#[tokio::test]
async fn an_unguarded_body_with_finish_outlives_its_caller() {
    let shop = Shop::open();
    let (go, done) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let call = finishing(None, Arc::clone(&go), Arc::clone(&done));
    let call = shop.idempotency.scope(call);
    assert!(timeout(Duration::ZERO, call).await.is_err());
    go.notify_one();
    done.notified().await;
    let drained = shop.idempotency.drain(Duration::from_mins(1)).await;
    assert_eq!(drained, Ok(()));
    assert_eq!(shop.events(), ["bypassed"]);
    assert_eq!(shop.sent(), 0);
}

/// All options that can be combined with `when`.
#[idempotent(
    name = "when.everything",
    key = (id),
    payload = "amount",
    ttl = "1d",
    lease = "10s",
    renew = "10m",
    wait = "2s",
    replay = true,
    replay_err = |_| true,
    on_lease_lost = "continue",
    on_store_error = "run",
    on_duplicate = |_| Ok(amount),
    error = |error| error.code().to_owned(),
    success = Result::is_ok,
    using = idempotency,
    when = { let known = id.as_ref().map(|id| *id > 0); known == Some(true) }
)]
async fn everything(idempotency: Idempotency, id: Option<u64>, amount: u64) -> Result<u64, String> {
    drop(idempotency);
    yield_now().await;
    Ok(id.unwrap_or_default() + amount)
}

#[tokio::test(start_paused = true)]
async fn when_can_be_combined_with_all_other_options_but_token() {
    let shop = Shop::open();
    let call = |id, amount| everything(shop.idempotency.clone(), id, amount);
    let (first, second) = tokio::join!(call(Some(0), 1), call(Some(0), 2));
    assert_eq!((first, second), (Ok(1), Ok(2)));
    assert_eq!((call(None, 3).await, call(None, 4).await), (Ok(3), Ok(4)));
    assert_eq!(shop.sent(), 0);
    assert_eq!(
        (call(Some(5), 1).await, call(Some(5), 1).await),
        (Ok(6), Ok(6))
    );
    let other = call(Some(5), 2).await.unwrap_err();
    assert_eq!(other, "payload_mismatch");
}

#[idempotent(key = "id", ttl = "1d", when = id.is_some())]
fn boxed(id: Option<u64>) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>> {
    Box::pin(async move { Ok(id.unwrap_or_default()) })
}

#[tokio::test]
async fn a_call_without_a_handle_is_refused_also_if_it_is_unguarded() {
    let refused = tokio::spawn(async { boxed(None).await }).await.unwrap();
    assert_eq!(refused.unwrap_err().code(), "not_installed");
}

// A part that is never `None`, or has a generic type, needs no `when`.

#[idempotent(key = (id, &id, note.as_deref()), ttl = "1d")]
async fn always_there(id: RequestId, note: Option<String>) -> Result<(), Error> {
    let _ = (id, note);
    Ok(())
}

#[idempotent(key = "id, many", ttl = "1d")]
async fn optional<T: KeyPart + Sync>(id: Option<&T>, many: &[T]) -> Result<(), Error> {
    let _ = (id, many);
    Ok(())
}

#[idempotent(key = (id, *name, many, 5, "a", f(1)), ttl = "1d")]
async fn generic<T: KeyPart + Sync + ?Sized, U: Serialize + Sync>(
    id: &T,
    name: &str,
    many: &[Option<U>],
    f: fn(u8) -> u8,
) -> Result<(), Error> {
    let _ = (id, name, many, f);
    Ok(())
}

#[tokio::test]
async fn the_key_of_a_generic_function_is_the_serialized_value() {
    let shop = Shop::open();
    let twice = async |call: &dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Error>>>>| {
        call().await.unwrap();
        assert!(call().await.unwrap_err().is_duplicate());
    };
    shop.idempotency
        .scope(async {
            let of = || id("a").unwrap();
            twice(&|| Box::pin(always_there(of(), None))).await;
            twice(&|| Box::pin(generic::<str, u8>("a", "b", &[None], |x| x))).await;
            twice(&|| Box::pin(generic(&7, "b", &[Some(1)], |x| x))).await;
            twice(&|| Box::pin(optional(Some(&7), &[1]))).await;
            // The check for `Option` cannot see through a type parameter.
            twice(&|| Box::pin(async { generic(&id("c"), "b", &[None::<u8>], |x| x).await })).await;
        })
        .await;
}

mod in_a_transaction {
    use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
    use idempotence::sql::sqlx::{self, Executor as _, Sqlite, SqlitePool, Transaction};

    use super::*;

    #[idempotent(
        name = "when.pay",
        key = "request_id",
        ttl = "1d",
        replay = true,
        tx = tx,
        when = request_id.is_some()
    )]
    async fn pay(
        tx: &mut Transaction<'_, Sqlite>,
        request_id: Option<RequestId>,
        cents: i64,
    ) -> Result<i64, Error> {
        let insert = sqlx::query("INSERT INTO payment VALUES (?)").bind(cents);
        tx.execute(insert).await.unwrap();
        Ok(cents)
    }

    async fn count(pool: &SqlitePool, table: &'static str) -> i64 {
        let count = match table {
            "payment" => "SELECT count(*) FROM payment",
            _ => "SELECT count(*) FROM idempotence",
        };
        sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
    }

    #[tokio::test]
    async fn an_unguarded_body_runs_in_the_transaction_and_writes_no_row() {
        let shop = Shop::open();
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.connect("sqlite::memory:").await.unwrap();
        idempotence::sql::migrate(&pool).await.unwrap();
        pool.execute("CREATE TABLE payment (cents INTEGER)")
            .await
            .unwrap();
        let pay = async |request_id, cents| {
            let mut tx = pool.begin().await.unwrap();
            let paid = shop.idempotency.scope(pay(&mut tx, request_id, cents));
            let paid = paid.await.unwrap();
            tx.commit().await.unwrap();
            paid
        };
        assert_eq!((pay(None, 1).await, pay(None, 2).await), (1, 2));
        assert_eq!(count(&pool, "payment").await, 2);
        assert_eq!(count(&pool, "idempotence").await, 0);
        assert_eq!((pay(id("a"), 3).await, pay(id("a"), 4).await), (3, 3));
        assert_eq!(count(&pool, "payment").await, 3);
        let expected = ["bypassed", "bypassed", "executed", "replayed"];
        assert_eq!(shop.events(), expected);
    }
}
