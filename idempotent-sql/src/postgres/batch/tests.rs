//! What the statement must keep. Each part of the statement has a broken variant, and a rule must find the mistake.

use std::cell::Cell;
use std::time::{Duration, Instant};

use idempotence_test_servers::PostgresServer;
use idempotent_runtime::store::{Claim, Store as _};
use sqlx::{AssertSqlSafe, raw_sql};
use tokio::time::timeout;

use super::*;
use crate::store::PostgresStore;

thread_local! {
    /// A part of the statement, and the mistake in its place.
    static BROKEN: Cell<Option<(&'static str, &'static str)>> = const { Cell::new(None) };
}

pub(super) fn broken(statement: &str) -> String {
    let Some((part, mistake)) = BROKEN.get() else {
        return statement.to_owned();
    };
    assert!(statement.contains(part), "{part}");
    statement.replace(part, mistake)
}

/// Checks that the statement keeps a rule, and that the statement with any of these mistakes does not.
async fn assert_kept(
    rule: impl AsyncFn(PostgresStore) -> bool,
    mistakes: &[(&'static str, &'static str)],
) {
    let none = [None];
    let mistakes = mistakes.iter().copied().map(Some);
    for mistake in none.into_iter().chain(mistakes) {
        BROKEN.set(mistake);
        let server = PostgresServer::shared().expect("postgres is installed");
        let store = PostgresStore::connect(&server.database().expect("a database")).await;
        let is_kept = rule(store.expect("a store")).await;
        BROKEN.set(None);
        assert_eq!(is_kept, mistake.is_none(), "{mistake:?}");
    }
}

const MINE: Bytes = Bytes::from_static(b"mine");
const OTHER: Bytes = Bytes::from_static(b"other");
const NEW: Bytes = Bytes::from_static(b"new");
const MINUTE: i64 = 60_000_000;

fn claim(key: &str) -> ChangeRequest {
    let (value, micros) = (NEW, MINUTE);
    ChangeRequest::new(key, Change::Claim { value, micros })
}

fn remove(key: &str) -> ChangeRequest {
    ChangeRequest::new(key, Change::Remove { expected: MINE })
}

/// Makes the changes, and describes what each of them found.
async fn found(
    store: &PostgresStore,
    mut requests: Vec<ChangeRequest>,
) -> Option<Vec<(String, String)>> {
    requests.sort_by(|one, other| one.key.cmp(&other.key));
    let requests: Vec<_> = requests.iter().collect();
    let connection = store.pool().acquire().await;
    let mut connection = connection.expect("a connection");
    let found = Postgres::change_many(&mut connection, &requests, i32::MAX);
    // A statement may have no limit for its wait.
    let found = timeout(Duration::from_secs(5), found).await.ok()?.ok()?;
    let found = requests.iter().zip(found);
    let found = found.map(|(request, found)| (request.key.to_string(), format!("{found:?}")));
    Some(found.collect())
}

/// The keys, values and remaining minutes of all live records, as text.
const LIVE: &str = "
SELECT string_agg(concat_ws(' ', key, convert_from(value, 'UTF8'),
    round(extract(epoch FROM expires_at - now()) / 60)::integer), ', ' ORDER BY key)
FROM idempotence WHERE expires_at > now()";

/// Parts of the statement, and mistakes in their places.
const MISTAKES: [(&str, &str); 13] = [
    ("WHERE expected IS NULL AND", "WHERE"),
    (
        "THEN stored.expires_at <= statement_timestamp()",
        "THEN true",
    ),
    (
        "THEN stored.expires_at <= statement_timestamp()",
        "THEN false",
    ),
    (
        "stored.expires_at > statement_timestamp() AND stored.value",
        "stored.value",
    ),
    (" AND stored.value = wanted.expected", ""),
    ("coalesce(locked.value, stored.value)", "locked.value"),
    (
        "interval '1 microsecond', stored.expires_at)",
        "interval '1 microsecond', now())",
    ),
    (
        "AND (locked.value IS NOT NULL OR locked.micros IS NOT NULL)",
        "",
    ),
    ("locked.value IS NOT NULL OR", ""),
    ("OR locked.micros IS NOT NULL", ""),
    (
        "AND locked.value IS NULL AND locked.micros IS NULL",
        "AND locked.value IS NOT NULL",
    ),
    (" UNION ALL SELECT key FROM updated", ""),
    (" UNION ALL SELECT key FROM removed", ""),
];

#[tokio::test]
async fn each_change_of_a_batch_changes_only_what_it_may() {
    let rule = async |store: PostgresStore| {
        let records = "INSERT INTO idempotence SELECT key, value::bytea, now() + expiry FROM (VALUES \
            ('claimed', 'other', interval '5 minutes'), ('expired claim', 'other', interval '-1 minute'), \
            ('expired exchange', 'mine', '-1 minute'), ('expired removal', 'mine', '-1 minute'), \
            ('expired renewal', 'mine', '-1 minute'), ('exchange', 'mine', '5 minutes'), \
            ('others exchange', 'other', '5 minutes'), ('others removal', 'other', '5 minutes'), \
            ('others renewal', 'other', '5 minutes'), ('removal', 'mine', '5 minutes'), \
            ('renewal', 'mine', '5 minutes'), ('replacement', 'mine', '5 minutes')) AS record (key, value, expiry)";
        raw_sql(records).execute(store.pool()).await.unwrap();
        let renew = |key: &str| {
            let (expected, micros) = (MINE, MINUTE);
            ChangeRequest::new(key, Change::Renew { expected, micros })
        };
        let exchange = |key: &str| {
            let (expected, value) = (MINE, NEW);
            ChangeRequest::new(key, Change::Exchange { expected, value })
        };
        let replacement = Change::Replace {
            expected: MINE,
            value: NEW,
            micros: MINUTE,
        };
        let requests = vec![
            claim("absent"),
            claim("claimed"),
            claim("expired claim"),
            exchange("exchange"),
            exchange("expired exchange"),
            exchange("others exchange"),
            remove("expired removal"),
            remove("others removal"),
            remove("removal"),
            remove("removal of nothing"),
            renew("expired renewal"),
            renew("others renewal"),
            renew("renewal"),
            ChangeRequest::new("replacement", replacement),
        ];
        let Some(found) = found(&store, requests).await else {
            return false;
        };
        let (done, absent) = (Some(Found::Done), Some(Found::Absent));
        let other = Some(Found::Other(OTHER));
        let expected = [
            ("absent", &done),
            ("claimed", &other),
            ("exchange", &done),
            ("expired claim", &done),
            ("expired exchange", &absent),
            ("expired removal", &absent),
            ("expired renewal", &absent),
            ("others exchange", &other),
            ("others removal", &other),
            ("others renewal", &other),
            ("removal", &done),
            ("removal of nothing", &absent),
            ("renewal", &done),
            ("replacement", &done),
        ];
        let expected = expected.map(|(key, found)| (key.to_owned(), format!("{found:?}")));
        let live: String = sqlx::query_scalar(LIVE)
            .fetch_one(store.pool())
            .await
            .unwrap();
        found == expected
            && live
                == "absent new 1, claimed other 5, exchange new 5, expired claim new 1, \
                    others exchange other 5, others removal other 5, others renewal other 5, \
                    renewal mine 1, replacement new 1"
    };
    assert_kept(rule, &MISTAKES).await;
}

#[tokio::test]
async fn a_locked_row_delays_only_its_own_change() {
    let rule = async |store: PostgresStore| {
        let records = "INSERT INTO idempotence VALUES ('claim', 'other', now() - interval '1 minute'), \
            ('removal', 'mine', now() + interval '1 minute'), ('free removal', 'mine', now() + interval '1 minute')";
        raw_sql(records).execute(store.pool()).await.unwrap();
        let mut locking = store.pool().begin().await.unwrap();
        let lock = raw_sql("SELECT FROM idempotence WHERE key IN ('claim', 'removal') FOR UPDATE");
        lock.execute(&mut *locking).await.unwrap();
        let requests = vec![
            claim("claim"),
            claim("free claim"),
            remove("free removal"),
            remove("removal"),
        ];
        let found = found(&store, requests).await;
        locking.rollback().await.unwrap();
        let (done, alone) = ("Some(Done)", "None");
        let expected = [
            ("claim", alone),
            ("free claim", done),
            ("free removal", done),
            ("removal", alone),
        ];
        let expected = expected.map(|(key, found)| (key.to_owned(), found.to_owned()));
        found.is_some_and(|found| found == expected)
    };
    assert_kept(rule, &[(" SKIP LOCKED", "")]).await;
}

#[tokio::test]
async fn an_uncommitted_row_delays_a_batch_for_a_tenth_of_a_second() {
    let rule = async |store: PostgresStore| {
        let mut inserting = store.pool().begin().await.unwrap();
        let insert = raw_sql("INSERT INTO idempotence VALUES ('claim', 'other', now())");
        insert.execute(&mut *inserting).await.unwrap();
        let mut connection = store.pool().acquire().await.unwrap();
        let patience = raw_sql("SET lock_timeout = '7s'");
        connection.execute(patience).await.unwrap();
        let (claim, free) = (claim("claim"), claim("free claim"));
        let requests = [&claim, &free];
        let changed = Postgres::change_many(&mut connection, &requests, i32::MAX);
        let changed = timeout(Duration::from_secs(5), changed).await;
        inserting.rollback().await.unwrap();
        let Ok(Err(failed)) = changed else {
            return false;
        };
        let code = failed
            .error
            .as_database_error()
            .and_then(DatabaseError::code);
        assert_eq!(code.as_deref(), Some("55P03"));
        assert_eq!(failed.stage, Stage::Changes);
        let changed = Postgres::change_many(&mut connection, &requests, i32::MAX).await;
        assert_eq!(changed.unwrap().len(), 2);
        // The session's own limit holds again.
        let limit = sqlx::query_scalar("SHOW lock_timeout");
        let limit: String = limit.fetch_one(&mut *connection).await.unwrap();
        limit == "7s"
    };
    let mistakes = [
        (
            " AND (SELECT set_config('lock_timeout', '100ms', true)) IS NOT NULL",
            "",
        ),
        ("'100ms', true", "'100ms', false"),
    ];
    assert_kept(rule, &mistakes).await;
}

#[tokio::test]
async fn a_process_that_stops_in_the_middle_of_a_batch_frees_its_keys() {
    let url = PostgresServer::shared().unwrap().database().unwrap();
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut stopped = store.pool().acquire().await.unwrap();
    let mut transaction = stopped.begin_with(BEGIN).await.unwrap();
    let (value, ttl) = (Bytes::from_static(b"value"), Duration::from_mins(1));
    let micros = 60_000_000;
    let claim = ChangeRequest::new("key", Change::Claim { value, micros });
    let mut found = [None];
    let claimed = change_all(&mut transaction, &[&claim], &mut found).await;
    claimed.unwrap();
    assert!(matches!(found, [Some(Found::Done)]));
    let since = Instant::now();
    let other = Bytes::from_static(b"other");
    loop {
        match store.claim("key", &other, ttl).await {
            Ok(claim) => break assert_eq!(claim, Claim::Claimed),
            // The row is locked.
            Err(_) => assert!(since.elapsed() < Duration::from_mins(2)),
        }
    }
    transaction.commit().await.unwrap_err();
    let stored = store.get("key").await.unwrap().unwrap();
    assert_eq!(stored.value, other);
}

#[tokio::test]
async fn postgres_finds_the_rows_of_a_batch_by_their_keys() {
    let url = PostgresServer::shared().unwrap().database().unwrap();
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut connection = store.pool().acquire().await.unwrap();
    let fill = "INSERT INTO idempotence SELECT 'key ' || n, repeat('v', 200)::bytea, now() + interval '1 hour' \
                FROM generate_series(1, 50000) AS n; ANALYZE idempotence";
    connection.execute(raw_sql(fill)).await.unwrap();
    let keys: Vec<_> = (0..100).map(|key| format!("key {key}")).collect();
    let (values, micros) = (vec![&b"value"[..]; keys.len()], vec![1_000_i64; keys.len()]);
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let mode = format!("SET plan_cache_mode = {mode}");
        connection
            .execute(raw_sql(AssertSqlSafe(mode)))
            .await
            .unwrap();
        let explain = query(AssertSqlSafe(format!("EXPLAIN {CHANGE}")));
        let explain = explain
            .bind(&keys)
            .bind(&values)
            .bind(&values)
            .bind(&micros);
        let plan = connection.fetch_all(explain).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("idempotence_pkey"), "{plan}");
        assert!(!plan.contains("Seq Scan on idempotence"), "{plan}");
    }
}
