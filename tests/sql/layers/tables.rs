//! The tables of the tests, and their statements.

use idempotent_sql::sql::{self, AsConnection, InsertOnce, TransitionUpdate};
use sqlx::Executor;

use crate::layers::databases::Subject;
use crate::layers::status::Status;
use support::databases::Fresh;

pub(crate) async fn run<'e, DB: Subject>(on: impl Executor<'e, Database = DB>, statement: &str) {
    sqlx::query(DB::text(statement)).execute(on).await.unwrap();
}

/// Makes orders 1, 2… in these states.
pub(crate) async fn orders<DB: Subject>(states: impl IntoIterator<Item = Status>) -> Fresh<DB> {
    let fresh = Fresh::<DB>::new().await;
    run(
        &fresh.pool,
        "CREATE TABLE orders (order_id BIGINT PRIMARY KEY, status VARCHAR(20), pay_time VARCHAR(40))",
    )
    .await;
    for (id, state) in (1_i64..).zip(states) {
        let insert = sqlx::query(DB::text("INSERT INTO orders VALUES (?, ?, NULL)"));
        let insert = insert.bind(id).bind(state);
        insert.execute(&fresh.pool).await.unwrap();
    }
    fresh
}

/// The transition that pays order 1.
pub(crate) fn pay<DB: Subject>() -> TransitionUpdate<'static, DB, Status> {
    sql::transition("orders")
        .id("order_id", 1_i64)
        .from([Status::Paying])
        .to(Status::Paid)
}

/// The state of order 1.
pub(crate) async fn status<'e, DB: Subject>(on: impl Executor<'e, Database = DB>) -> Status {
    sqlx::query_scalar("SELECT status FROM orders WHERE order_id = 1")
        .fetch_one(on)
        .await
        .unwrap()
}

pub(crate) async fn put<'e, DB: Subject>(on: impl Executor<'e, Database = DB>, state: Status) {
    let put = sqlx::query(DB::text("UPDATE orders SET status = ? WHERE order_id = 1"));
    put.bind(state).execute(on).await.unwrap();
}

pub(crate) async fn goods<DB: Subject>() -> Fresh<DB> {
    let fresh = Fresh::<DB>::new().await;
    run(
        &fresh.pool,
        "CREATE TABLE goods (good_id INT PRIMARY KEY, count INT NOT NULL CHECK (count >= 0), \
         version INT NOT NULL)",
    )
    .await;
    run(&fresh.pool, "INSERT INTO goods VALUES (2, 10, 1)").await;
    fresh
}

/// The count and the version of good 2.
pub(crate) async fn stock<DB: Subject>(fresh: &Fresh<DB>) -> (i32, i32) {
    sqlx::query_as("SELECT count, version FROM goods WHERE good_id = 2")
        .fetch_one(&fresh.pool)
        .await
        .unwrap()
}

/// Makes a table in which a user has a coupon once, and a telephone number belongs to one user.
pub(crate) async fn coupons<DB: Subject>() -> Fresh<DB> {
    let fresh = Fresh::<DB>::new().await;
    run(
        &fresh.pool,
        "CREATE TABLE user_coupon (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, \
         coupon_id BIGINT NOT NULL, phone VARCHAR(100), CHECK (user_id > 0))",
    )
    .await;
    let indexes = [
        "CREATE UNIQUE INDEX uk_user_coupon ON user_coupon (user_id, coupon_id)",
        "CREATE UNIQUE INDEX uk_phone ON user_coupon (phone)",
        "CREATE UNIQUE INDEX uk_other ON user_coupon (coupon_id, phone)",
    ];
    for index in indexes {
        run(&fresh.pool, index).await;
    }
    fresh
}

/// The insert of a row for this user and coupon 7.
pub(crate) fn taking<DB: Subject>(id: i64, user: i64, phone: &str) -> InsertOnce<'_, DB> {
    sql::insert_once("user_coupon")
        .key("user_id", user)
        .key("coupon_id", 7_i64)
        .set("id", id)
        .set("phone", phone)
}

/// Runs this insert. Returns whether the row was new.
pub(crate) async fn take<C>(on: &mut C, id: i64, user: i64, phone: &str) -> sqlx::Result<bool>
where
    C: AsConnection<Database: Subject>,
{
    let insertion = taking(id, user, phone).run(on).await?;
    Ok(insertion.is_inserted())
}

pub(crate) async fn taken<'e, DB: Subject>(on: impl Executor<'e, Database = DB>) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM user_coupon");
    count.fetch_one(on).await.unwrap()
}
