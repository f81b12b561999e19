//! Lock, check, update: 一锁二判三更新. A paid order earns points once, also if many calls ask for it.
//!
//! ```text
//! cargo run -p idempotence-examples --features sqlite --bin lock_check_update
//! cargo run -p idempotence-examples --features redis,sqlite --bin lock_check_update -- redis://127.0.0.1:6379/ shop.db
//! ```
//!
//! 1. **Lock.** `release = true`: one of several equal calls runs, the others are refused. Its end releases the key.
//! 2. **Check.** The body first asks the database whether the work is done. The lock prevents only simultaneous work: a duplicate
//!    that arrives after the release would run and do the work again.
//! 3. **Update.** The body changes the row only from the state that was checked. The lock and the check are not enough: a holder may
//!    pause between check and update until its lease has expired and another call has done the work.
//!
//! Each step stops duplicates that passed the step before. Only the last step is a guarantee, because the database enforces it.
//! An update that cannot name the expected state uses the fence of `sql::Lock` instead.
#![allow(clippy::print_stdout)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::path::PathBuf;
use std::time::Duration;

use idempotence::sql::{self, Transition};
use idempotence::{Error, Idempotency, idempotent};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{SqliteConnection, SqlitePool};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let file = args.next().map_or_else(new_file, PathBuf::from);
    Idempotency::from_url(&url.to_string_lossy())
        .await?
        .install()?;
    let pool = open(file).await?;

    let mut calls = JoinSet::new();
    for _ in 0..10 {
        calls.spawn(earn(pool.clone(), ORDER));
    }
    let mut answers = calls.join_all().await;
    // The key is free: only the check prevents this call from doing the work again.
    answers.push(earn(pool, ORDER).await);
    for answer in answers {
        match answer {
            Ok(Earned::Now) => println!("earned now"),
            Ok(Earned::Before) => println!("earned before"),
            Err(error) => println!("refused: {error}"),
        }
    }
    Ok(())
}

const ORDER: i64 = 42;
const POINTS: i64 = 100;

/// When the order earned its points.
#[derive(Debug, PartialEq, Eq)]
enum Earned {
    Now,
    Before,
}

#[idempotent(name = "orders.earn", key = "order", ttl = "30s", release = true)]
async fn earn(pool: SqlitePool, order: i64) -> Result<Earned, EarnError> {
    if has_earned(&pool, order).await? {
        return Ok(Earned::Before);
    }
    println!("working: order {order}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    update(&pool, order).await
}

async fn has_earned(pool: &SqlitePool, order: i64) -> Result<bool, EarnError> {
    let status: Option<String> = sqlx::query_scalar("SELECT status FROM orders WHERE id = ?")
        .bind(order)
        .fetch_optional(pool)
        .await?;
    match status {
        Some(status) => Ok(status == "EARNED"),
        None => Err(EarnError::NoSuchOrder),
    }
}

async fn update(pool: &SqlitePool, order: i64) -> Result<Earned, EarnError> {
    // SQLite has one writer: take its lock now. Other databases need only `begin`.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let earned = sql::transition("orders")
        .id("id", order)
        .from(["PAID".to_owned()])
        .to("EARNED".to_owned())
        .run(&mut tx)
        .await?;
    match earned {
        Transition::Applied => {
            add_points(&mut tx, order).await?;
            tx.commit().await?;
            Ok(Earned::Now)
        }
        // Another call did the work after the check: the lease of this call expired.
        Transition::AlreadyThere => Ok(Earned::Before),
        Transition::Illegal { .. } => Err(EarnError::NotPaid),
        Transition::NotFound => Err(EarnError::NoSuchOrder),
    }
}

/// The work that must not happen twice.
async fn add_points(tx: &mut SqliteConnection, order: i64) -> Result<(), EarnError> {
    sqlx::query(
        "UPDATE users SET points = points + ? WHERE id = (SELECT user_id FROM orders WHERE id = ?)",
    )
    .bind(POINTS)
    .bind(order)
    .execute(tx)
    .await?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum EarnError {
    #[error("{0}")]
    Refused(#[from] Error),
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    #[error("the order is not paid")]
    NotPaid,
    #[error("there is no such order")]
    NoSuchOrder,
}

fn new_file() -> PathBuf {
    let file = format!("lock-check-update-{}.db", std::process::id());
    std::env::temp_dir().join(file)
}

async fn open(file: PathBuf) -> Result<SqlitePool, Box<dyn std::error::Error>> {
    println!("the database is {}", file.display());
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::raw_sql(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, points INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS orders (
             id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, status TEXT NOT NULL
         );
         INSERT OR IGNORE INTO users VALUES (7, 0);
         INSERT OR IGNORE INTO orders VALUES (42, 7, 'PAID');
         COMMIT;",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotence::MemoryStore;
    use tokio::sync::Barrier;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_twenty_simultaneous_calls_one_does_the_work_and_later_calls_find_it_done() {
        let shop = Shop::new("at-once");
        let pool = shop.pool().await;
        let idempotency = Idempotency::new(MemoryStore::new());
        let start = Arc::new(Barrier::new(20));
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let (idempotency, start, pool) =
                (idempotency.clone(), Arc::clone(&start), pool.clone());
            calls.spawn(async move {
                start.wait().await;
                idempotency.scope(earn(pool, ORDER)).await
            });
        }
        let mut now = 0;
        for answer in calls.join_all().await {
            match answer {
                Ok(Earned::Now) => now += 1,
                // On a slow machine some calls begin after the first ended.
                Ok(Earned::Before) => {}
                Err(EarnError::Refused(error)) => assert!(error.is_duplicate(), "{error:?}"),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(now, 1);
        for _ in 0..5 {
            let late = idempotency.scope(earn(pool.clone(), ORDER)).await;
            assert_eq!(late.unwrap(), Earned::Before);
        }
        assert_eq!(shop.points().await, POINTS);
    }

    #[tokio::test]
    async fn without_the_check_a_late_duplicate_does_the_work_twice() {
        #[idempotent(name = "orders.earn", key = "order", ttl = "30s", release = true)]
        async fn earn_without_check(pool: SqlitePool, order: i64) -> Result<(), EarnError> {
            update_blindly(&pool, order).await
        }

        let shop = Shop::new("unchecked");
        let pool = shop.pool().await;
        let idempotency = Idempotency::new(MemoryStore::new());
        let call = || idempotency.scope(earn_without_check(pool.clone(), ORDER));
        let (first, duplicate) = tokio::join!(call(), call());
        first.unwrap();
        let refused = matches!(duplicate, Err(EarnError::Refused(Error::InProgress(_))));
        assert!(refused, "the lock refuses a simultaneous call");
        assert_eq!(shop.points().await, POINTS);
        call().await.unwrap();
        assert_eq!(shop.points().await, 2 * POINTS);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_holder_without_its_lock_finds_the_row_changed_and_does_nothing() {
        let shop = Shop::new("lost");
        let pool = shop.pool().await;
        // With two stores there is no lock between the two calls.
        let [one, other] = [(); 2].map(|()| Idempotency::new(MemoryStore::new()));
        let (one, other) = tokio::join!(
            one.scope(earn(pool.clone(), ORDER)),
            other.scope(earn(pool.clone(), ORDER)),
        );
        let mut answers = [one.unwrap(), other.unwrap()];
        answers.sort_by_key(|earned| *earned == Earned::Before);
        assert_eq!(answers, [Earned::Now, Earned::Before]);
        assert_eq!(shop.points().await, POINTS);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_the_condition_a_holder_without_its_lock_does_the_work_twice() {
        let shop = Shop::new("unconditional");
        let pool = shop.pool().await;
        let both_have_checked = Barrier::new(2);
        let earn_without_condition = async || {
            if has_earned(&pool, ORDER).await.unwrap() {
                return;
            }
            both_have_checked.wait().await;
            update_blindly(&pool, ORDER).await.unwrap();
        };
        tokio::join!(earn_without_condition(), earn_without_condition());
        assert_eq!(shop.points().await, 2 * POINTS);
    }

    /// The same work by an update without a condition.
    async fn update_blindly(pool: &SqlitePool, order: i64) -> Result<(), EarnError> {
        let mut connection = pool.acquire().await?;
        add_points(&mut connection, order).await?;
        sqlx::query("UPDATE orders SET status = 'EARNED' WHERE id = ?")
            .bind(order)
            .execute(&mut *connection)
            .await?;
        Ok(())
    }

    struct Shop {
        file: PathBuf,
    }

    impl Shop {
        fn new(name: &str) -> Self {
            let name = format!("lock-check-update-{}-{name}.db", std::process::id());
            let file = std::env::temp_dir().join(name);
            Self { file }
        }

        async fn pool(&self) -> SqlitePool {
            open(self.file.clone()).await.unwrap()
        }

        async fn points(&self) -> i64 {
            let points = sqlx::query_scalar("SELECT points FROM users WHERE id = 7");
            points.fetch_one(&self.pool().await).await.unwrap()
        }
    }

    impl Drop for Shop {
        fn drop(&mut self) {
            for end in ["", "-wal", "-shm"] {
                let mut file = self.file.clone().into_os_string();
                file.push(end);
                let _ = std::fs::remove_file(file);
            }
        }
    }
}
