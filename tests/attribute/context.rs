//! The option `context`, and the context of calls of the builder.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
use idempotence::sql::sqlx::{Sqlite, Transaction};
use idempotence::testkit::{CountingStore, Fault, FaultyStore};
use idempotence::{
    AnyIntent, Error, Idempotency, IdempotencyContext, MemoryStore, Release, StoreErrorKind,
    idempotent,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

const MD5: &str = "9e107d9d372bb6826bd81d3542a419d6";
/// The downstream key of `orders.pay` for user 42, this digest and the request `stripe.charge`. It never changes.
const CHARGE: &str = "e18bfb23-4ead-820e-80c0-6e0d9a3279a5";

fn handle() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Needs one intent, as a helper of a body may.
fn charge_key(cx: &IdempotencyContext) -> String {
    cx.downstream_key("stripe.charge")
}

#[idempotent(name = "orders.pay", key = "user_id, file_md5", ttl = "1d", context = cx)]
async fn pay(user_id: u64, file_md5: &str, is_declined: bool) -> Result<String, Error> {
    let _ = (user_id, file_md5);
    if is_declined {
        // An error frees the key, so a later call runs again.
        return inner_refusal().await.map(|()| unreachable!());
    }
    Ok(charge_key(&cx))
}

#[idempotent(name = "context.inner", key = (), ttl = "1d")]
async fn inner() -> Result<(), Error> {
    Ok(())
}

async fn inner_refusal() -> Result<(), Error> {
    inner().await?;
    inner().await
}

#[tokio::test]
async fn a_downstream_key_is_the_same_in_each_run_and_on_each_handle() {
    for _ in 0..2 {
        let handle = handle();
        handle
            .scope(async {
                pay(42, MD5, true).await.unwrap_err();
                assert_eq!(pay(42, MD5, false).await.unwrap(), CHARGE);
                assert_ne!(pay(43, MD5, false).await.unwrap(), CHARGE);
            })
            .await;
    }
    let other = Idempotency::builder(MemoryStore::new()).prefix("shop");
    let other = other.build().unwrap();
    let key = other.scope(pay(42, MD5, false)).await.unwrap();
    assert_ne!(key, CHARGE, "programs with other prefixes share no keys");
}

#[idempotent(name = "context.stuck", key = "id", ttl = "1d", context = cx)]
async fn stuck(id: u64, keys: &std::sync::Mutex<Vec<String>>, sticks: bool) -> Result<(), Error> {
    let _ = id;
    keys.lock().unwrap().push(cx.downstream_key("bank.charge"));
    if sticks {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_over_from_a_call_that_died_sends_the_same_key() {
    let keys = std::sync::Mutex::default();
    handle()
        .scope(async {
            let dropped = timeout(secs(1), stuck(7, &keys, true)).await;
            assert!(dropped.is_err());
            assert!(stuck(7, &keys, false).await.unwrap_err().is_duplicate());
            sleep(secs(40)).await; // the lease and its grace
            stuck(7, &keys, false).await.unwrap();
        })
        .await;
    let keys = keys.into_inner().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[idempotent(name = "context.facts", key = "id", ttl = "1d", context = cx)]
async fn facts(id: u64) -> Result<(), Error> {
    assert_eq!(cx.endpoint(), "context.facts");
    let key = idempotence::fingerprint::Fingerprint::of(&(id,)).unwrap();
    assert_eq!(cx.key(), key.to_string());
    assert!(cx.is_guarded());
    // The lease is 30 s.
    assert_eq!(cx.lease_remaining(), Some(secs(30)));
    sleep(secs(7)).await;
    assert_eq!(cx.lease_remaining(), Some(secs(23)));
    // The lease is renewed in the meantime.
    sleep(secs(60)).await;
    let remaining = cx.lease_remaining().unwrap();
    assert!((secs(15)..=secs(30)).contains(&remaining), "{remaining:?}");
    assert_ne!(cx.downstream_key("a"), cx.downstream_key("b"));
    assert_eq!(cx.clone().downstream_key("a"), cx.downstream_key("a"));
    assert!(format!("{cx:?}").contains("context.facts"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_body_knows_its_endpoint_its_key_and_its_lease() {
    handle().scope(facts(7)).await.unwrap();
}

#[tokio::test]
async fn a_context_sends_nothing_to_the_store() {
    let store = CountingStore::new(MemoryStore::new());
    let handle = Idempotency::new(store.clone());
    handle.scope(pay(42, MD5, false)).await.unwrap();
    let with = store.counts().total();
    handle.scope(inner()).await.unwrap();
    assert_eq!(store.counts().total(), with * 2);
}

#[idempotent(key = "id", ttl = "1d", when = id.is_some(), context = cx)]
async fn may_have_no_key(id: Option<u64>) -> Result<[String; 3], Error> {
    assert_eq!(cx.is_guarded(), id.is_some());
    assert_eq!(cx.key().is_empty(), id.is_none());
    assert_eq!(cx.lease_remaining().is_some(), id.is_some());
    let again = cx.clone();
    Ok([
        cx.downstream_key("a"),
        again.downstream_key("a"),
        cx.downstream_key("b"),
    ])
}

#[tokio::test]
async fn a_call_without_a_key_has_random_downstream_keys() {
    handle()
        .scope(async {
            let [first, again, other] = may_have_no_key(None).await.unwrap();
            assert_eq!(first, again);
            assert_ne!(first, other);
            let [second, ..] = may_have_no_key(None).await.unwrap();
            assert_ne!(first, second, "no call is a repetition of another");
            may_have_no_key(Some(1)).await.unwrap();
        })
        .await;
}

#[idempotent(
    name = "orders.pay",
    key = "user_id, file_md5",
    ttl = "1d",
    on_store_error = "run",
    context = cx
)]
async fn pay_unguarded(user_id: u64, file_md5: &str) -> Result<(bool, String), Error> {
    let _ = (user_id, file_md5);
    assert_eq!(cx.lease_remaining(), None);
    Ok((cx.is_guarded(), cx.downstream_key("stripe.charge")))
}

#[tokio::test(start_paused = true)]
async fn without_a_store_the_other_service_still_gets_the_same_key() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let handle = Idempotency::new(store);
    for _ in 0..2 {
        let paid = handle.scope(pay_unguarded(42, MD5)).await.unwrap();
        assert_eq!(paid, (false, CHARGE.to_owned()));
    }
}

#[idempotent(key = "id", ttl = "5s", release = true, context = lock)]
async fn exclusive(id: u64) -> Result<(), Error> {
    let _ = id;
    let lock: IdempotencyContext<AnyIntent> = lock;
    assert!(lock.is_guarded());
    assert_eq!(lock.lease_remaining(), Some(secs(5)));
    let refused = lock.try_downstream_key("bank.charge").unwrap_err();
    assert_eq!(refused.code(), "invalid_policy");
    assert!(refused.to_string().contains("new intent"), "{refused}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn with_release_true_there_is_a_context_and_no_downstream_key() {
    handle()
        .scope(async {
            exclusive(1).await.unwrap();
            exclusive(1).await.unwrap();
        })
        .await;
}

/// The names of the expansion do not reach the body, and the name of the context reaches nothing else.
macro_rules! function {
    ($name:ident, $cx:ident, $body:expr) => {
        #[idempotent(name = "context.hygiene", key = (), ttl = "1d", context = $cx)]
        async fn $name(held: u64, returns: u64, claim: u64) -> Result<u64, Error> {
            let (body, call, context) = (1_u64, 1_u64, 1_u64);
            assert_eq!($body, "context.hygiene");
            Ok(held + returns + claim + body + call + context)
        }
    };
}

function!(in_a_macro, cx, cx.endpoint());
function!(
    named_like_a_variable_of_the_expansion,
    outcome,
    outcome.endpoint()
);

#[tokio::test]
async fn the_name_of_the_context_is_hygienic() {
    assert_eq!(handle().scope(in_a_macro(1, 1, 1)).await.unwrap(), 6);
    let named = named_like_a_variable_of_the_expansion(1, 1, 1);
    assert_eq!(handle().scope(named).await.unwrap(), 6);
}

struct Shop {
    tenant: String,
}

#[async_trait::async_trait]
trait Pays {
    async fn pay(&self, id: u64) -> Result<String, Error>;
}

#[async_trait::async_trait]
impl Pays for Shop {
    #[idempotent(name = "context.shapes", key = "id", ttl = "1d", context = cx)]
    async fn pay(&self, id: u64) -> Result<String, Error> {
        Ok(format!("{} {id} {}", self.tenant, cx.downstream_key("a")))
    }
}

impl Shop {
    #[idempotent(name = "context.shapes", key = "id", ttl = "1d", context = cx)]
    fn boxed(&self, id: u64) -> Pin<Box<dyn Future<Output = Result<String, Error>> + Send + '_>> {
        Box::pin(async move { Ok(format!("{} {id} {}", self.tenant, cx.downstream_key("a"))) })
    }

    #[idempotent(name = "context.shapes", key = "id", ttl = "1d", context = cx)]
    fn opaque(&self, id: u64) -> impl Future<Output = Result<String, Error>> + Send {
        let tenant = &self.tenant;
        async move { Ok(format!("{tenant} {id} {}", cx.downstream_key("a"))) }
    }

    #[idempotent(name = "context.shapes", key = "id", ttl = "1d", context = cx)]
    async fn generic<T: Into<u64> + Send>(&self, id: u64, more: T) -> Result<String, Error> {
        let id = id + more.into();
        Ok(format!("{} {id} {}", self.tenant, cx.downstream_key("a")))
    }
}

#[tokio::test]
async fn each_form_of_a_function_may_have_a_context() {
    let tenant = "acme".to_owned();
    let shop = Shop { tenant };
    let mut seen = Vec::new();
    seen.push(handle().scope(shop.pay(7)).await.unwrap());
    seen.push(handle().scope(shop.boxed(7)).await.unwrap());
    seen.push(handle().scope(shop.opaque(7)).await.unwrap());
    seen.push(handle().scope(shop.generic(7, 0_u8)).await.unwrap());
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].starts_with("acme 7 "), "{seen:?}");
}

#[idempotent(name = "context.finish", key = "id", ttl = "1d", on_cancel = "finish", context = cx)]
async fn finishing(id: u64, go: Arc<Notify>, done: Arc<Notify>) -> Result<(), Error> {
    let _ = id;
    go.notified().await;
    assert!(cx.is_guarded());
    done.notify_one();
    Ok(())
}

#[tokio::test]
async fn a_body_that_outlives_its_caller_keeps_its_context() {
    let handle = handle();
    let (go, done) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let call = finishing(7, Arc::clone(&go), Arc::clone(&done));
    assert!(timeout(Duration::ZERO, handle.scope(call)).await.is_err());
    go.notify_one();
    done.notified().await;
    assert_eq!(handle.drain(secs(60)).await, Ok(()));
}

#[idempotent(name = "orders.pay", key = "user_id, file_md5", ttl = "1d", tx = tx, context = cx)]
async fn pay_in(
    tx: &mut Transaction<'_, Sqlite>,
    user_id: u64,
    file_md5: &str,
) -> Result<String, Error> {
    let _ = (&*tx, user_id, file_md5);
    assert!(cx.is_guarded());
    assert_eq!(cx.lease_remaining(), None);
    Ok(charge_key(&cx))
}

#[tokio::test]
async fn a_call_in_a_transaction_sends_the_key_of_the_call_around_it() {
    let handle = handle();
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    idempotence::sql::migrate(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let key = handle.scope(pay_in(&mut tx, 42, MD5)).await.unwrap();
    assert_eq!(key, CHARGE);
    tx.commit().await.unwrap();

    let mut tx = pool.begin().await.unwrap();
    let call = handle.call("orders.pay").key(&43).key(MD5).ttl(secs(60));
    let key = call
        .run_in_with(&mut tx, async |_, cx| {
            assert!(cx.is_guarded());
            cx.try_downstream_key("stripe.charge")
        })
        .await;
    assert_ne!(key.unwrap(), CHARGE);
}

#[tokio::test]
async fn a_body_of_the_builder_gets_the_same_context() {
    let call = |handle: &Idempotency| {
        let call = handle.call("orders.pay").ttl(secs(60));
        call.key(&42).key(MD5)
    };
    let with = call(&handle()).run_with(async |cx| {
        assert_eq!(cx.endpoint(), "orders.pay");
        cx.try_downstream_key("stripe.charge")
    });
    assert_eq!(with.await.unwrap(), CHARGE);
    let closure = call(&handle()).run_with(|cx| async move {
        assert!(cx.is_guarded());
        cx.try_downstream_key("stripe.charge")
    });
    assert_eq!(tokio::spawn(closure).await.unwrap().unwrap(), CHARGE);
    let to_end =
        call(&handle()).run_to_end_with(|cx| async move { cx.try_downstream_key("stripe.charge") });
    assert_eq!(to_end.await.unwrap(), CHARGE);
}

#[tokio::test]
async fn a_call_of_the_builder_with_release_always_gets_an_error_for_its_downstream_key() {
    let handle = handle();
    let call = handle.call("orders.pay").key(&1).ttl(secs(60));
    let call = call.release(Release::Always);
    let refused = call.run_with(async |cx| cx.try_downstream_key("a")).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_policy");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_body_with_context_is_renewed_and_lost_as_without() {
    let store = FaultyStore::new(MemoryStore::new());
    let handle = Idempotency::new(store.clone());
    let began = Instant::now();
    let call = handle
        .call("orders.pay")
        .key(&1)
        .ttl(secs(60))
        .lease(secs(3));
    let lost = call.run_with(async |cx| {
        sleep(secs(10)).await;
        assert!(cx.lease_remaining().unwrap() > Duration::ZERO);
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
        sleep(secs(60)).await;
        Ok::<_, Error>(())
    });
    assert_eq!(lost.await.unwrap_err().code(), "lease_lost");
    assert!(began.elapsed() < secs(20));
}
