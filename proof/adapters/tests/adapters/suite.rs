//! What must hold of the dedup row through every library and on every database. Each library compiles this file with its own types.
#![allow(
    clippy::needless_borrow,
    clippy::unnecessary_mut_passed,
    reason = "some libraries have references where others have transactions"
)]

use futures_util::future::join_all;
use idempotence::Error;
use idempotence::sql::driver::{ColumnType, Driver as _, DriverErrorKind, Field, Value};

use super::{DB, LibraryError, Session, commit, driver, pay, rollback};
use crate::setting::{Database, Subject as _, Trouble, causes};

pub(crate) type Base = Database<DB>;
pub(crate) type Paid = Result<u32, Trouble<LibraryError>>;

/// Pays order 7 in its own transaction.
pub(crate) async fn pay_and_commit(database: &Base, receipt: u32) -> Paid {
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.map_err(Trouble::Library)?;
    let receipt = pay(&database.handle, &mut tx, 7, receipt).await?;
    commit(tx).await.map_err(Trouble::Library)?;
    Ok(receipt)
}

#[tokio::test]
async fn a_duplicate_gets_the_result_and_a_rollback_frees_the_key() {
    let database = Base::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    assert_eq!(pay(&database.handle, &mut tx, 7, 1).await.unwrap(), 1);
    rollback(tx).await;
    assert_eq!(database.payments().await, 0);
    for receipt in 2..5 {
        assert_eq!(pay_and_commit(&database, receipt).await.unwrap(), 2);
    }
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn an_expired_row_is_taken_over() {
    let database = Base::new().await;
    assert_eq!(pay_and_commit(&database, 1).await.unwrap(), 1);
    database.execute(DB::EXPIRE).await;
    assert_eq!(pay_and_commit(&database, 2).await.unwrap(), 2);
    assert_eq!(pay_and_commit(&database, 3).await.unwrap(), 2);
    assert_eq!(database.payments().await, 2);
}

#[tokio::test]
async fn one_of_twenty_concurrent_calls_pays() {
    let database = Base::new().await;
    let calls = (0..20).map(|receipt| pay_and_commit(&database, receipt));
    let receipts: Vec<_> = join_all(calls).await;
    let receipts: Vec<_> = receipts.into_iter().map(Result::unwrap).collect();
    assert!(
        receipts.iter().all(|receipt| *receipt == receipts[0]),
        "{receipts:?}"
    );
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn a_missing_table_says_what_to_do() {
    let database = Base::new().await;
    database.execute("DROP TABLE idempotence").await;
    let refused = pay_and_commit(&database, 1).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
    let text = causes(&refused);
    assert!(text.contains("call `sql::migrate`"), "{text}");
}

#[tokio::test]
async fn a_driver_passes_on_each_type_and_names_each_error() {
    let database = Base::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let values = [
        Value::Text("a"),
        Value::Bytes(&[0, 255]),
        Value::Integer(i64::MIN),
        Value::Float(0.5),
    ];
    let columns = [
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Integer,
        ColumnType::Float,
        ColumnType::Integer,
    ];
    let row = driver(&mut tx).first_row(DB::VALUES, &values, &columns);
    let expected = vec![
        Field::Text("a".into()),
        Field::Bytes(vec![0, 255]),
        Field::Integer(i64::MIN),
        Field::Float(0.5),
        Field::Null,
    ];
    assert_eq!(row.await.unwrap(), Some(expected));
    let nothing = format!("{} WHERE id = 9", DB::VALUES);
    let none = driver(&mut tx).first_row(&nothing, &values, &columns);
    assert_eq!(none.await.unwrap(), None);
    let update = "UPDATE account SET cents = 5";
    assert_eq!(driver(&mut tx).execute(update, &[]).await.unwrap(), 2);

    let violate = "INSERT INTO account VALUES (1, 5)";
    let violated = driver(&mut tx).execute_all(violate).await.unwrap_err();
    assert_eq!(violated.kind(), DriverErrorKind::UniqueViolation);
    assert_eq!(violated.constraint(), DB::CONSTRAINT);
    rollback(tx).await;
}
