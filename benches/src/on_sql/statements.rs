//! The statements by hand for each database.

use std::time::Duration;

use idempotence::sql::sqlx::{AssertSqlSafe, Executor as _, MySql, Pool, Postgres, Sqlite, query};
use idempotence::sql::{self, Database};
use idempotence::{Error, Idempotency};

use crate::owner;

/// How long an order is deduplicated.
pub(super) const WEEK: Duration = Duration::from_hours(7 * 24);

#[derive(Debug)]
struct Refused;

/// A new order number for each call.
pub(super) fn number(user_id: u64) -> String {
    let run = std::process::id();
    format!("{run}-{user_id}-{}", &owner()[..8])
}

/// The statements by hand for each database.
pub trait Statements: Database {
    /// Inserts the row of a key by hand, unless a live row exists.
    const PUT: &'static str;
    /// Inserts an order.
    const ORDER: &'static str;
    /// Reads the version.
    const VERSION: &'static str;
    /// Reads how many transactions have written something. `None`: the database does not count them.
    const WRITES: Option<&'static str>;
    /// Inserts the other rows into a table.
    const FILL: &'static str;
    /// Statements after the inserts, so that no background work remains.
    const SETTLE: &'static [&'static str];

    /// Applies a statement.
    fn apply(pool: &Pool<Self>, statement: &str) -> impl Future<Output = ()> + Send;

    /// Reads one text.
    fn text(pool: &Pool<Self>, query: &'static str) -> impl Future<Output = String> + Send;

    /// Inserts a row unless a live row exists. Returns the number of inserted rows.
    fn put_row(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = u64> + Send;

    /// Removes the caller's row. Returns the number of removed rows.
    fn delete_row(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
    ) -> impl Future<Output = u64> + Send;

    /// Inserts an order.
    fn order(connection: &mut Self::Connection, number: &str) -> impl Future<Output = ()> + Send;

    /// A call in a transaction that is refused, succeeds, or is replayed.
    fn guarded_with_replay(
        idempotency: &Idempotency,
        tx: &mut sql::sqlx::Transaction<'static, Self>,
    ) -> impl Future<Output = ()> + Send;

    /// A guarded call in a transaction that inserts an order.
    fn guarded(
        idempotency: &Idempotency,
        tx: &mut sql::sqlx::Transaction<'static, Self>,
        user_id: u64,
        file_md5: &str,
    ) -> impl Future<Output = ()> + Send;
}

macro_rules! statements {
    (
        $database:ty, $connection:ty, $key:expr,
        put: $put:expr, remove: $remove:expr, order: $order:expr,
        $($constant:item)*
    ) => {
        impl Statements for $database {
            const PUT: &'static str = $put;
            const ORDER: &'static str = $order;
            $($constant)*

            async fn apply(pool: &Pool<Self>, statement: &str) {
                let statement = sql::sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
                pool.execute(statement).await.expect("an answer");
            }

            async fn text(pool: &Pool<Self>, query: &'static str) -> String {
                let text = sql::sqlx::query_scalar(query).fetch_one(pool).await;
                text.expect("an answer")
            }

            async fn put_row(connection: &mut $connection, key: &str, value: &[u8], micros: i64) -> u64 {
                let put = query(Self::PUT).bind($key(key)).bind(value).bind(micros);
                connection.execute(put).await.expect("an answer").rows_affected()
            }

            async fn delete_row(connection: &mut $connection, key: &str, value: &[u8]) -> u64 {
                let remove = query($remove).bind($key(key)).bind(value);
                connection.execute(remove).await.expect("an answer").rows_affected()
            }

            async fn order(connection: &mut $connection, number: &str) {
                let order = query(Self::ORDER).bind(number).bind(1_i64);
                connection.execute(order).await.expect("an answer");
            }

            async fn guarded_with_replay(
                idempotency: &Idempotency,
                tx: &mut sql::sqlx::Transaction<'static, Self>,
            ) {
                let call = || idempotency.call("bench.plans").key("it").ttl(WEEK);
                let refused = async |_: &mut $connection| Err::<(), _>(Refused);
                let refused = call().error(|_| Refused).run_in(tx, refused).await;
                let succeeds = async |_: &mut $connection| Ok::<u8, Error>(1);
                call().replay().run_in(tx, succeeds).await.expect("a result");
                assert!(refused.is_err(), "the call must be refused, by its body or as a duplicate");
            }

            async fn guarded(
                idempotency: &Idempotency,
                tx: &mut sql::sqlx::Transaction<'static, Self>,
                user_id: u64,
                file_md5: &str,
            ) {
                let call = idempotency.call(crate::ENDPOINT).key(&user_id).key(file_md5).ttl(WEEK);
                let body = async |connection: &mut $connection| {
                    Self::order(connection, &number(user_id)).await;
                    Ok::<_, Error>(())
                };
                call.run_in(tx, body).await.expect("a new order");
            }
        }
    };
}

statements! {
    Postgres, sql::sqlx::PgConnection, std::convert::identity::<&str>,
    put: "INSERT INTO by_hand (key, value, expires_at) \
          VALUES ($1, $2, statement_timestamp() + $3::bigint * interval '1 microsecond') \
          ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
          WHERE by_hand.expires_at <= statement_timestamp()",
    remove: "DELETE FROM by_hand WHERE key = $1 AND value = $2",
    order: "INSERT INTO orders (number, amount) VALUES ($1, $2)",
    const VERSION: &'static str = "SHOW server_version";
    // Each of them has a number.
    const WRITES: Option<&'static str> = Some("SELECT txid_snapshot_xmax(txid_current_snapshot())::text");
    const FILL: &'static str = "\
        INSERT INTO {table} SELECT 'idem:bench.upload:' || md5(i::text), \
        decode(repeat('2d', {size}), 'hex'), now() + interval '7 days' + i * interval '1 microsecond' \
        FROM generate_series(1, {rows}) i";
    const SETTLE: &'static [&'static str] = &["VACUUM ANALYZE", "CHECKPOINT"];
}

statements! {
    MySql, sql::sqlx::MySqlConnection, str::as_bytes,
    put: "INSERT INTO by_hand (`key`, value, expires_at) \
          VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
    remove: "DELETE FROM by_hand WHERE `key` = ? AND value = ?",
    order: "INSERT INTO orders (number, amount) VALUES (?, ?)",
    const VERSION: &'static str = "SELECT version()";
    const WRITES: Option<&'static str> = Some("SELECT CAST(count AS CHAR) \
        FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'");
    const FILL: &'static str = "\
        INSERT INTO {table} SELECT concat('idem:bench.upload:', md5(seq)), repeat('-', {size}), \
        utc_timestamp(6) + INTERVAL 7 DAY + INTERVAL seq MICROSECOND FROM seq_1_to_{rows} ORDER BY 1";
    const SETTLE: &'static [&'static str] = &[
        "ANALYZE TABLE idempotence, by_hand",
        "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, innodb_max_dirty_pages_pct = 0",
        "DO sleep(10)",
        "SET GLOBAL innodb_max_dirty_pages_pct = 90",
    ];
}

statements! {
    Sqlite, sql::sqlx::SqliteConnection, std::convert::identity::<&str>,
    put: "INSERT INTO by_hand (key, value, expires_at) \
          VALUES (?1, ?2, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + ?3) \
          ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
          WHERE by_hand.expires_at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    remove: "DELETE FROM by_hand WHERE key = ?1 AND value = ?2",
    order: "INSERT INTO orders (number, amount) VALUES (?1, ?2)",
    const VERSION: &'static str = "SELECT sqlite_version()";
    const WRITES: Option<&'static str> = None;
    const FILL: &'static str = "\
        INSERT INTO {table} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
        SELECT 'idem:bench.upload:' || lower(hex(randomblob(16))), CAST(printf('%.*c', {size}, '-') AS BLOB), \
        (CAST(strftime('%s', 'now') AS INTEGER) + 604800) * 1000000 + i FROM n ORDER BY 1";
    const SETTLE: &'static [&'static str] = &["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"];
}
