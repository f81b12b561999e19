//! The unique index of a real table decides.

use idempotent_runtime::{Error, MemoryStore, OrderNumbers, Placed};
use idempotent_sql::sql::{self, sqlx};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Row as _, SqlitePool};

use crate::numbers::{USER, numbers};

#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

async fn pool() -> SqlitePool {
    let options = SqlitePoolOptions::new().max_connections(1);
    let pool = options.connect("sqlite::memory:").await.unwrap();
    for statement in [
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, no BIGINT NOT NULL, phone TEXT NOT NULL)",
        "CREATE UNIQUE INDEX uk_order_no ON orders (no)",
        "CREATE UNIQUE INDEX uk_phone ON orders (phone)",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    pool
}

async fn place(
    pool: &SqlitePool,
    numbers: &OrderNumbers,
    number: &str,
    phone: &str,
) -> Result<Placed<i64>, AppError> {
    let insert = async |number: i64, _| {
        let mut tx = pool.begin().await?;
        let insert = sql::insert_once("orders").key("no", number);
        let insertion = insert.set("phone", phone).returning("id", &mut tx).await?;
        tx.commit().await?;
        Ok::<_, AppError>(insertion.into())
    };
    numbers.redeem(number, &USER, insert).await
}

#[tokio::test]
async fn a_conflict_on_the_number_is_a_duplicate_and_a_conflict_on_another_index_is_an_error() {
    let (pool, numbers) = (pool().await, numbers(MemoryStore::new()).await);
    let number = numbers.issue(&USER).unwrap();
    let new = place(&pool, &numbers, number.as_str(), "0170-1")
        .await
        .unwrap();
    assert_eq!(new, Placed::New(1));
    for phone in ["0170-1", "0170-2"] {
        let again = place(&pool, &numbers, number.as_str(), phone).await;
        assert_eq!(again.unwrap(), Placed::Again);
    }
    let other = numbers.issue(&USER).unwrap();
    let conflict = place(&pool, &numbers, other.as_str(), "0170-1").await;
    assert!(
        matches!(conflict, Err(AppError::Database(_))),
        "{conflict:?}"
    );
    let new = place(&pool, &numbers, other.as_str(), "0170-3")
        .await
        .unwrap();
    assert!(
        matches!(new, Placed::New(_)),
        "an order that failed is inserted when it is sent again"
    );

    let stored = sqlx::query("SELECT no FROM orders ORDER BY no");
    let stored = stored.fetch_all(&pool).await.unwrap();
    let stored: Vec<i64> = stored.iter().map(|row| row.get("no")).collect();
    assert_eq!(stored, [number.value(), other.value()]);
}

#[tokio::test]
async fn the_number_of_another_user_is_refused_before_the_database() {
    let (pool, numbers) = (pool().await, numbers(MemoryStore::new()).await);
    let theirs = numbers.issue(&(USER + 1)).unwrap();
    let refused = place(&pool, &numbers, theirs.as_str(), "0170-1").await;
    assert!(
        matches!(refused, Err(AppError::Refused(Error::TokenUnknown(_)))),
        "{refused:?}"
    );
}
