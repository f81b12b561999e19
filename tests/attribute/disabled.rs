//! The setting `disabled` and functions with the attribute.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, process};

use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
use idempotence::sql::sqlx::{self, Executor as _, Sqlite, SqlitePool, Transaction};
use idempotence::{Error, Event, Idempotency, MemoryStore, Settings, endpoints, idempotent};

/// A handle with these settings, and its events.
fn handle(name: &str, text: &str) -> (Idempotency, Arc<Mutex<Vec<String>>>) {
    let file = env::temp_dir().join(format!("idempotence-{name}-{}.toml", process::id()));
    fs::write(&file, text).unwrap();
    let events = Arc::<Mutex<Vec<String>>>::default();
    let sink = Arc::clone(&events);
    let handle = Idempotency::builder(MemoryStore::new())
        .settings(Settings::file(&file))
        .observer(move |event: &Event<'_>| {
            if event.kind().is_end() {
                assert!(event.took().is_some(), "{event}");
                assert!(event.key().is_some(), "{event}");
                sink.lock().unwrap().push(event.kind().to_string());
            }
        })
        .build();
    fs::remove_file(&file).unwrap();
    (handle.unwrap(), events)
}

#[idempotent(
    name = "disabled.place",
    key = "id",
    ttl = "1d",
    replay = true,
    on_cancel = "finish"
)]
async fn place(id: u64, order: u64) -> Result<u64, Error> {
    let _ = id;
    Ok(order)
}

#[tokio::test]
async fn each_equal_call_of_a_disabled_function_runs_its_body() {
    let (handle, events) = handle("place", "[endpoints.\"disabled.place\"]\ndisabled = true");
    handle
        .scope(async {
            for order in 1..=3 {
                assert_eq!(place(7, order).await.unwrap(), order);
            }
            let listed = endpoints().to_string();
            let line = listed
                .lines()
                .find(|line| line.starts_with("disabled.place: disabled = true ("));
            assert!(line.is_some(), "{listed}");
        })
        .await;
    assert_eq!(*events.lock().unwrap(), ["disabled"; 3]);
}

#[idempotent(name = "disabled.submit", token = "token, user", ttl = "1d")]
async fn submit(token: String, user: u64) -> Result<(), Error> {
    let _ = (token, user);
    Ok(())
}

#[tokio::test]
async fn a_function_with_a_token_cannot_be_disabled_also_before_its_first_call() {
    let (handle, events) = handle("all", "[all]\ndisabled = true");
    let tokens = handle.tokens();
    let token = tokens.issue(&7, "disabled.submit", Duration::from_mins(1));
    let token = token.await.unwrap().to_string();
    handle
        .scope(async {
            submit(token.clone(), 7).await.unwrap();
            let again = submit(token.clone(), 7).await.unwrap_err();
            assert_eq!(again.code(), "already_done");
            let thief = submit(token.clone(), 8).await.unwrap_err();
            assert_eq!(thief.code(), "token_unknown");
        })
        .await;
    let ends = ["executed", "done", "token_refused"];
    assert_eq!(*events.lock().unwrap(), ends);

    let file = env::temp_dir().join(format!("idempotence-submit-{}.toml", process::id()));
    fs::write(&file, "[endpoints.\"disabled.submit\"]\ndisabled = true").unwrap();
    let built = Idempotency::builder(MemoryStore::new())
        .settings(Settings::file(&file))
        .build();
    fs::remove_file(&file).unwrap();
    let error = built.unwrap_err().to_string();
    let what = "`disabled` does not fit the endpoint `disabled.submit`";
    assert!(error.contains(what), "{error}");
}

#[idempotent(name = "disabled.pay", key = "order_no", ttl = "1d", replay = true, tx = tx)]
async fn pay(tx: &mut Transaction<'_, Sqlite>, order_no: u64, cents: i64) -> Result<i64, Error> {
    let _ = order_no;
    let insert = sqlx::query("INSERT INTO payment VALUES (?)").bind(cents);
    tx.execute(insert).await.unwrap();
    Ok(cents)
}

async fn count(pool: &SqlitePool, count: &'static str) -> i64 {
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_disabled_function_with_tx_writes_no_row() {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    idempotence::sql::migrate(&pool).await.unwrap();
    let table = "CREATE TABLE payment (cents INTEGER)";
    pool.execute(table).await.unwrap();
    for (settings, is_guarded) in [("disabled = true", false), ("", true)] {
        let (handle, events) = handle("pay", &format!("[all]\n{settings}"));
        for cents in 1..=2 {
            let mut tx = pool.begin().await.unwrap();
            handle.scope(pay(&mut tx, 7, cents)).await.unwrap();
            tx.commit().await.unwrap();
        }
        let rows = count(&pool, "SELECT count(*) FROM idempotence").await;
        assert_eq!(rows, i64::from(is_guarded));
        let expected = if is_guarded {
            ["executed", "replayed"]
        } else {
            ["disabled", "disabled"]
        };
        assert_eq!(*events.lock().unwrap(), expected);
    }
    assert_eq!(count(&pool, "SELECT count(*) FROM payment").await, 3);
}
