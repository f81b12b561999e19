//! The texts of errors: where, why and what to do, in one line without a password.

use std::error::Error as StdError;
use std::fs;
use std::time::{Duration, Instant};

use idempotence_test_servers::{MariaDbServer, Port, PostgresServer};
use idempotent_runtime::{Error, Idempotency, Store, StoreError};
use idempotent_sql::sql::sqlx::mysql::MySqlPoolOptions;
use idempotent_sql::sql::sqlx::pool::PoolOptions;
use idempotent_sql::sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idempotent_sql::sql::sqlx::{Connection, MySql, Postgres, Sqlite};
use idempotent_sql::sql::{self};
use idempotent_sql::{MySqlStore, PostgresStore, SqlStore, SqliteStore};
use tokio::task::spawn_blocking;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, VALUE, chain, connected, narrow, store};
use support::databases::{Kind, file};
use support::log_capture::LogCapture;
use support::patient::patient;

const REFUSED: &str = "refused the connection (is the server running?)";
const NO_TABLES: &str = "has no table `idempotence` (call `sql::migrate` at every start, run `idempotence migrate`, or apply the statements of `sql::schema`)";
const BUSY: &str = "is busy, because another connection writes to the file (shorten its transactions, or raise \
                    `busy_timeout`)";
const READ_ONLY_FILE: &str = "accepts no writes: the file is read-only (check the permissions of the file and its \
                              directory, and `mode` in the URL)";
const FORGET: &str =
    "DROP TABLE idempotence; DROP TABLE idempotence_lock; DROP TABLE idempotence_version";

/// The text of an error. Checks what all texts have in common.
fn text<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    let error = result.expect_err("the operation must fail");
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    assert!(!text.ends_with('.'), "no full stop: {text}");
    assert!(!chain(&error).contains("s3cret"), "{}", chain(&error));
    text
}

/// The place of a URL, as errors name it.
fn place(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap();
    let path = rest.rsplit('@').next().unwrap();
    match scheme {
        "sqlite" => format!("sqlite {path}"),
        _ => format!("{scheme} {}", path.split('/').next().unwrap()),
    }
}

#[tokio::test]
async fn a_refused_connection_names_host_and_port() {
    // Nothing listens there while the test has it.
    let free = Port::free().unwrap();
    let port = free.number();
    let postgres = format!("postgres://user:s3cret@127.0.0.1:{port}/database");
    let mysql = format!("mysql://user:s3cret@127.0.0.1:{port}/database");
    assert_eq!(
        text(PostgresStore::connect(&postgres).await),
        format!("postgres 127.0.0.1:{port} {REFUSED}")
    );
    assert_eq!(
        text(MySqlStore::connect(&mysql).await),
        format!("mysql 127.0.0.1:{port} {REFUSED}")
    );
    let error = Idempotency::from_url(&postgres).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot use the PostgreSQL of this URL: postgres 127.0.0.1:{port} {REFUSED}")
    );
    let error = Idempotency::from_url("postgres://u:s3cret@h/d?sslmod=require").await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "cannot use the PostgreSQL of this URL: the URL has an unknown parameter `sslmod`: did you mean `sslmode`?"
    );
}

#[tokio::test]
async fn a_refused_login_and_an_unknown_database_say_what_to_check() {
    let postgres = Postgres::url();
    let (server, _) = postgres.rsplit_once('/').unwrap();
    let no_database =
        "has no such database (create it, or correct its name in the connection settings)";
    assert_eq!(
        text(PostgresStore::connect(&format!("{server}/nowhere")).await),
        format!("{} {no_database}", place(&postgres))
    );
    let stranger = postgres.replace("postgres@", "stranger@");
    assert_eq!(
        text(PostgresStore::connect(&stranger).await),
        format!(
            "{} refused the login (check the user and the password, and `pg_hba.conf`)",
            place(&postgres)
        )
    );
    let mysql = MySql::url();
    let (server, _) = mysql.rsplit_once('/').unwrap();
    assert_eq!(
        text(MySqlStore::connect(&format!("{server}/nowhere")).await),
        format!("{} {no_database}", place(&mysql))
    );
    assert_eq!(
        text(MySqlStore::connect(server).await),
        format!(
            "{} was given no database (end the URL with `/` and the name of one)",
            place(&mysql)
        )
    );
    let (_, address) = mysql.rsplit_once('@').unwrap();
    let stranger = format!("mysql://stranger:s3cret@{address}");
    assert_eq!(
        text(MySqlStore::connect(&stranger).await),
        format!(
            "{} refused the login (check the user and the password)",
            place(&mysql)
        )
    );
}

#[tokio::test]
async fn a_silent_server_is_named_after_the_deadline() {
    let (postgres, mysql) = tokio::join!(
        spawn_blocking(PostgresServer::start),
        spawn_blocking(MariaDbServer::start)
    );
    let (postgres, mysql) = (postgres.unwrap().unwrap(), mysql.unwrap().unwrap());
    let urls = (postgres.database().unwrap(), mysql.database().unwrap());
    let store = PostgresStore::connect(&urls.0).await.unwrap();
    postgres.pause().unwrap();
    mysql.pause().unwrap();
    let silent = "did not answer within 5s (check the host and the firewall)";
    let (first, second) = tokio::join!(
        PostgresStore::connect(&urls.0),
        MySqlStore::connect(&urls.1)
    );
    assert_eq!(text(first), format!("{} {silent}", place(&urls.0)));
    assert_eq!(text(second), format!("{} {silent}", place(&urls.1)));
    let handle = Idempotency::builder(store)
        .deadline(Duration::from_millis(700))
        .build()
        .unwrap();
    let findings = handle.doctor().await.to_string();
    let late = format!("{} did not answer within 700ms", place(&urls.0));
    assert!(findings.contains(&late), "{findings}");
    postgres.resume().unwrap();
    mysql.resume().unwrap();
}

on_every_database! {
    a_call_that_waits_for_a_connection_until_its_deadline_names_the_pool
    an_exhausted_pool_names_its_size_and_how_long_the_call_waited
    the_error_of_a_missing_table_names_what_makes_it
}

async fn an_exhausted_pool_names_its_size_and_how_long_the_call_waited<DB: Fresh>() {
    let url = DB::url();
    let first = connected::<DB>(&url).await;
    let options: <DB::Connection as Connection>::Options =
        (*first.pool().connect_options()).clone();
    for (most, all) in [(1, "its only one is"), (2, "all 2 of the pool are")] {
        let pool = PoolOptions::<DB>::new()
            .max_connections(most)
            .acquire_timeout(Duration::from_millis(150))
            .connect_lazy_with(options.clone());
        let mut taken = Vec::new();
        let deadline = Instant::now() + MAX_WAIT;
        while taken.len() < most as usize {
            assert!(Instant::now() < deadline);
            // On a slow machine a connection may need more time than a caller waits.
            taken.extend(pool.acquire().await);
        }
        let exhausted = format!(
            "{} had no free connection within 150ms: {}",
            place(&url),
            all_in_use(&url, all)
        );
        assert_eq!(
            text(SqlStore::new(pool.clone()).get("key").await),
            exhausted
        );
        assert_eq!(text(sql::migrate(&pool).await), exhausted);
    }
}

/// What an error says about an exhausted pool. SQLite opens a connection at once, without a server.
fn all_in_use(url: &str, all: &str) -> String {
    let (busy, check) = match url.split_once(':') {
        Some(("sqlite", _)) => ("in use", ""),
        _ => ("in use or being opened", "; is the server running?"),
    };
    format!(
        "{all} {busy} (raise `max_connections` of the pool, or hold its connections for a shorter time{check})"
    )
}

async fn a_call_that_waits_for_a_connection_until_its_deadline_names_the_pool<DB: Fresh>() {
    let url = DB::url();
    let store = narrow::<DB>(&url).await;
    let taken = store.pool().acquire().await.unwrap();
    let hurried = Idempotency::builder(store.clone()).deadline(Duration::from_millis(500));
    let handle = hurried.build().unwrap();
    let call = |handle: &Idempotency| handle.call("pay").key(&7).ttl(TTL);
    let error = call(&handle)
        .run(async { Ok::<_, Error>(()) })
        .await
        .unwrap_err();
    let exhausted = format!(
        "had no free connection in time: {}",
        all_in_use(&url, "its only one is")
    );
    let said = error.to_string();
    assert!(
        said.ends_with(&format!(
            ": the store {exhausted}, so the call was refused and its body did not run; try again later"
        )),
        "{said}"
    );
    let counter = handle.counter("logins", 3, TTL).unwrap();
    let said = counter.attempt(&7).await.unwrap_err().to_string();
    assert!(said.contains(&exhausted), "{said}");
    let findings = handle.doctor().await.to_string();
    assert!(findings.contains(&exhausted), "{findings}");
    // Nothing was sent, so nothing is withdrawn, and the key is free.
    drop(taken);
    call(&patient(store))
        .run(async { Ok::<_, Error>(()) })
        .await
        .unwrap();
}

async fn the_error_of_a_missing_table_names_what_makes_it<DB: Fresh>() {
    let url = DB::url();
    let store = connected::<DB>(&url).await;
    DB::run(store.pool(), FORGET).await.unwrap();
    let missing = format!("{} {NO_TABLES}", place(&url));
    assert_eq!(text(store.claim("key", &VALUE, TTL).await), missing);
    assert_eq!(text(store.get("key").await), missing);
    assert_eq!(text(store.purge_expired().await), missing);
    let lock = sql::Lock::new(store.pool().clone());
    let error = lock.take("trade:42", TTL).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("call `sql::migrate` at every start, which makes the table of locks"),
        "{error}"
    );
    let original = error.as_database_error().unwrap();
    assert!(!original.message().contains("migrate"), "{original:?}");
    let error = patient(store)
        .call("pay")
        .key(&7)
        .ttl(TTL)
        .run(async { Ok::<_, Error>(()) })
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("the store {NO_TABLES}, so")),
        "{text}"
    );
    assert!(!text.contains(&place(&url)), "{text}");
}

#[tokio::test]
async fn the_error_of_a_missing_dedup_table_names_what_makes_it() {
    let store = store::<Postgres>().await;
    Postgres::run(store.pool(), FORGET).await.unwrap();
    let handle = Idempotency::new(store.clone());
    let mut tx = store.pool().begin().await.unwrap();
    let error = handle
        .call("pay")
        .key(&7)
        .ttl(TTL)
        .run_in(&mut tx, async |_| Ok::<_, Error>(()))
        .await
        .unwrap_err();
    let source = error.source().unwrap().to_string();
    assert_eq!(source, format!("PostgreSQL {NO_TABLES}"));
}

#[tokio::test]
async fn the_error_of_a_killed_session_says_that_it_was_killed() {
    let server = PostgresServer::start().unwrap();
    let store = PostgresStore::connect(&server.database().unwrap())
        .await
        .unwrap();
    let handle = Idempotency::new(store.clone());
    let mut holder = store.pool().begin().await.unwrap();
    let call = handle.call("pay").key(&7).ttl(TTL);
    call.run_in(&mut holder, async |_| Ok::<_, Error>(()))
        .await
        .unwrap();
    let mut waiting = store.pool().begin().await.unwrap();
    let call = handle.call("pay").key(&7).ttl(TTL).wait(TTL);
    let (outcome, ()) = tokio::join!(
        call.run_in(&mut waiting, async |_| Ok::<_, Error>(())),
        async {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            let deadline = Instant::now() + MAX_WAIT;
            while Postgres::number(store.pool(), waits).await == 0 {
                assert!(Instant::now() < deadline, "the call must wait");
            }
            server.kill().unwrap();
        }
    );
    let printed = outcome.unwrap_err().source().unwrap().to_string();
    let ended = [
        "PostgreSQL closed the connection before it answered (did the server stop or restart?)",
        "PostgreSQL ended the session before it answered (did the server stop or restart, or was the session killed?)",
    ];
    assert!(ended.contains(&&*printed), "{printed}");
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(150))
        .connect_lazy_with((*store.pool().connect_options()).clone());
    let port = server.port();
    assert_eq!(
        text(PostgresStore::new(pool).get("key").await),
        format!(
            "postgres 127.0.0.1:{port} accepted no connection within 150ms (is the server running and below its limit of connections?)"
        )
    );
}

#[tokio::test]
async fn the_error_of_a_busy_file_says_why_it_is_busy() {
    let url = Sqlite::url();
    let store = SqliteStore::connect(&url).await.unwrap();
    let other = narrow::<Sqlite>(&url).await;
    let writing = other.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let busy = format!("{} {BUSY}", place(&url));
    assert_eq!(text(store.claim("key", &VALUE, TTL).await), busy);
    writing.rollback().await.unwrap();
}

#[tokio::test]
async fn a_file_that_stays_busy_is_named_by_connect() {
    let url = Sqlite::url();
    let other = narrow::<Sqlite>(&url).await;
    Sqlite::run(other.pool(), FORGET).await.unwrap();
    let writing = other.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(
        text(SqliteStore::connect(&url).await),
        format!("{} {BUSY}; this lasted for 5s", place(&url))
    );
    writing.rollback().await.unwrap();
}

#[tokio::test]
async fn the_error_of_an_unusable_file_says_why() {
    let url = Sqlite::url();
    SqliteStore::connect(&url).await.unwrap();
    let reader = SqliteStore::connect(&format!("{url}?mode=ro"))
        .await
        .unwrap();
    assert_eq!(
        text(reader.claim("key", &VALUE, TTL).await),
        format!("{} {READ_ONLY_FILE}", place(&url))
    );
    let store = SqliteStore::connect(&url).await.unwrap();
    Sqlite::run(store.pool(), FORGET).await.unwrap();
    assert_eq!(
        text(SqliteStore::connect(&format!("{url}?mode=ro")).await),
        format!(
            "{} has no tables, and could not make them: it {READ_ONLY_FILE}",
            place(&url)
        )
    );
    let (path, other) = (file(), file());
    fs::create_dir(&path).unwrap();
    fs::write(&other, "some other file".repeat(100)).unwrap();
    let (path, other) = (path.display(), other.display());
    for (file, mode, why) in [
        (
            format!("{path}/missing/file"),
            "",
            "cannot open its file: the directory does not exist (create it, or correct the path)",
        ),
        (
            path.to_string(),
            "",
            "cannot open its file: the path is a directory (add the name of a file)",
        ),
        (
            format!("{path}/file"),
            "?mode=rw",
            "cannot open its file, which does not exist (create it, allow this process to write to its directory, or \
             leave `mode` out of the URL)",
        ),
        (
            format!("{other}/file"),
            "",
            "cannot open its file: a part of the path is no directory (correct the path)",
        ),
        (
            other.to_string(),
            "",
            "has a file that is no SQLite database",
        ),
    ] {
        assert_eq!(
            text(SqliteStore::connect(&format!("sqlite:{file}{mode}")).await),
            format!("{} {why}", place(&format!("sqlite:{file}")))
        );
    }
}

#[tokio::test]
async fn missing_privileges_are_listed() {
    let privilege = "denies its user a privilege (grant SELECT, INSERT, UPDATE and DELETE on `idempotence` and \
                     `idempotence_lock`, and SELECT on `idempotence_version`)";
    let not_migrated = "has no tables, and its user may not make them (have the statements of `sql::schema` applied by \
                        a user who may)";
    let url = Postgres::url();
    let admin = PostgresStore::connect(&url).await.unwrap();
    let role = format!("texts_{}", url.rsplit('_').next().unwrap());
    let create = format!(
        "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
         GRANT SELECT ON idempotence_version TO {role}"
    );
    Postgres::run(admin.pool(), &create).await.unwrap();
    let theirs = url.replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::connect(&theirs).await.unwrap();
    assert_eq!(
        text(store.claim("key", &VALUE, TTL).await),
        format!("{} {privilege}", place(&url))
    );
    Postgres::run(admin.pool(), FORGET).await.unwrap();
    assert_eq!(
        text(PostgresStore::connect(&theirs).await),
        format!("{} {not_migrated}", place(&url))
    );
}

#[tokio::test]
async fn the_error_that_main_prints_for_missing_tables_has_no_statements() {
    let url = Postgres::url();
    let admin = PostgresStore::connect(&url).await.unwrap();
    let role = format!("printed_{}", url.rsplit('_').next().unwrap());
    let create =
        format!("{FORGET}; CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    Postgres::run(admin.pool(), &create).await.unwrap();
    let theirs = url.replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::connect(&theirs).await.unwrap_err();
    let setup = Idempotency::from_url(&theirs).await.unwrap_err();
    for printed in [format!("{store:?}"), format!("{setup:?}")] {
        assert!(printed.contains("`sql::schema`"), "{printed}");
        assert!(printed.contains("permission denied"), "{printed}");
        assert!(!printed.contains("CREATE TABLE"), "{printed}");
    }
}

#[tokio::test]
async fn a_file_that_is_opened_only_for_reading_is_reported() {
    let url = Sqlite::url();
    // The last connection writes the WAL to the file. With `immutable` SQLite reads the file alone.
    let migrated = SqliteStore::connect(&url).await.unwrap();
    migrated.pool().close().await;
    let log = LogCapture::start();
    let warnings = || {
        let mut warnings = log.warnings();
        warnings.retain(|warning| warning.contains("only for reading"));
        warnings
    };
    let writable = SqliteStore::connect(&url).await.unwrap();
    writable.pool().close().await;
    assert_eq!(warnings(), [""; 0]);
    for parameter in ["mode=ro", "mode=ro&immutable=1"] {
        let url = format!("{url}?{parameter}");
        SqliteStore::connect(&url).await.unwrap();
    }
    let warning = format!(
        "{} is opened only for reading, as its URL asks for: the store refuses every call (leave `mode` and `immutable` \
         out of the URL to write)",
        place(&url)
    );
    assert_eq!(warnings(), [&*warning, &*warning]);
}

#[tokio::test]
async fn the_error_of_a_read_only_server_says_that_it_is_read_only() {
    let read_only = "accepts no writes: it is a replica or read-only (connect to the primary)";
    let url = Postgres::url();
    PostgresStore::connect(&url).await.unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("default_transaction_read_only", "on")]);
    let reader = PostgresStore::new(PgPoolOptions::new().connect_lazy_with(options));
    assert_eq!(
        text(reader.claim("key", &VALUE, TTL).await),
        format!("{} {read_only}", place(&url))
    );
}

#[tokio::test]
async fn a_server_of_another_kind_says_what_to_check() {
    let server = MariaDbServer::shared().unwrap();
    let port = server.port();
    let url = format!("postgres://user:s3cret@127.0.0.1:{port}/database");
    let printed = text(PostgresStore::connect(&url).await);
    assert!(
        printed.starts_with(&format!("postgres 127.0.0.1:{port} ")) && printed.contains("(check"),
        "{printed}"
    );
    let pool = MySqlPoolOptions::new().connect_lazy(&MySql::url()).unwrap();
    pool.close().await;
    let closed = text(MySqlStore::new(pool).get("key").await);
    assert!(
        closed.ends_with(" has no connection, because its pool was closed"),
        "{closed}"
    );
}
