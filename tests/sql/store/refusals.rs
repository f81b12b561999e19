//! The errors of databases, and the kinds of error that the store returns for them.

use std::fs;
use std::time::Duration;

use idempotence_test_servers::{MariaDbServer, Port};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Idempotency, Store, StoreErrorKind};
use idempotent_sql::sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idempotent_sql::sql::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions,
};
use idempotent_sql::sql::sqlx::{MySql, Postgres, Sqlite};
use idempotent_sql::sql::{self};
use idempotent_sql::{MySqlStore, PostgresStore, SqliteStore};

use crate::measure::takes_less_than;
use crate::store::databases::{
    Fresh, OTHER, TTL, VALUE, chain, kind, mysql, narrow, postgres, sqlite,
};
use support::databases::{Kind, file};

#[tokio::test]
async fn a_standby_or_a_read_only_session_applies_nothing() {
    let url = Postgres::url();
    let store = PostgresStore::connect(&url).await.unwrap();
    store.claim("held", &VALUE, TTL).await.unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("default_transaction_read_only", "on")]);
    let reader = PostgresStore::new(PgPoolOptions::new().connect_lazy_with(options));
    let claim = reader.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::NotApplied);
    let removal = reader.remove("held", &VALUE).await;
    assert_eq!(kind(removal), StoreErrorKind::NotApplied);
    assert_eq!(reader.get("held").await.unwrap().unwrap().value, VALUE);
}

#[tokio::test]
async fn a_read_only_mysql_server_applies_nothing() {
    let server = MariaDbServer::start().unwrap();
    let url = server.database().unwrap();
    let admin = MySqlStore::connect(&url).await.unwrap();
    let user = "CREATE USER reader IDENTIFIED BY 's3cret'; GRANT ALL ON *.* TO reader; \
                REVOKE READ_ONLY ADMIN, SUPER ON *.* FROM reader; SET GLOBAL read_only = 1";
    MySql::run(admin.pool(), user).await.unwrap();
    let (_, address) = url.rsplit_once('@').unwrap();
    let theirs = format!("mysql://reader:s3cret@{address}");
    let store = MySqlStore::connect(&theirs).await.unwrap();
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::NotApplied);
    MySql::run(admin.pool(), "SET GLOBAL read_only = 0")
        .await
        .unwrap();
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Claimed);
}

#[tokio::test]
async fn a_read_only_file_is_a_misconfiguration() {
    let url = Sqlite::url();
    let store = SqliteStore::connect(&url).await.unwrap();
    store.claim("held", &VALUE, TTL).await.unwrap();
    let reader = SqliteStore::connect(&format!("{url}?mode=ro"))
        .await
        .unwrap();
    let claim = reader.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::Misconfigured);
    assert_eq!(reader.get("held").await.unwrap().unwrap().value, VALUE);
}

#[tokio::test]
async fn a_full_file_refuses_data_but_renews_and_releases() {
    let store = narrow::<Sqlite>(&Sqlite::url()).await;
    store.claim("held", &VALUE, TTL).await.unwrap();
    Sqlite::run(store.pool(), "PRAGMA max_page_count = 1")
        .await
        .unwrap();
    let large = vec![1; 100_000].into();
    let claim = store.claim("new", &large, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::Full);
    let completion = store.replace("held", &VALUE, &large, TTL).await;
    assert_eq!(kind(completion), StoreErrorKind::Full);
    let renewal = store.replace("held", &VALUE, &VALUE, TTL * 2).await;
    assert_eq!(renewal.unwrap(), Swap::Done);
    assert_eq!(store.get("new").await.unwrap(), None);
    let release = store.remove("held", &VALUE).await;
    assert_eq!(release.unwrap(), Swap::Done);
}

#[tokio::test]
async fn a_packet_that_is_too_large_counts_as_a_full_store() {
    let server = MariaDbServer::start_with(["--max-allowed-packet=1M"]).unwrap();
    let store = MySqlStore::connect(&server.database().unwrap())
        .await
        .unwrap();
    let large = vec![1; 2 << 20].into();
    let claim = store.claim("key", &large, TTL).await.unwrap_err();
    // The server closes the connection early. The client may or may not read its error before that.
    let kinds = [StoreErrorKind::Full, StoreErrorKind::Unknown];
    assert!(kinds.contains(&claim.kind()), "{}", chain(&claim));
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Claimed);
}

/// Another connection keeps the file locked.
#[tokio::test]
async fn a_busy_file_applies_nothing() {
    let url = Sqlite::url();
    let store = SqliteStore::connect(&url).await.unwrap();
    let other = narrow::<Sqlite>(&url).await;
    let writing = other.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    takes_less_than(Duration::from_secs(5), async || {
        let error = store.claim("key", &VALUE, TTL).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotApplied);
        assert!(sql::is_retryable(&error));
    })
    .await;
    assert_eq!(store.get("key").await.unwrap(), None);
    writing.rollback().await.unwrap();
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Claimed);
}

/// Without a write-ahead log a commit waits for readers, so it may fail after the row was changed.
#[tokio::test]
async fn a_failed_commit_is_not_treated_as_a_success() {
    let path = file();
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Delete)
        .busy_timeout(Duration::from_millis(20));
    let pool = || {
        SqlitePoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options.clone())
    };
    let store = SqliteStore::new(pool());
    store.migrate().await.unwrap();
    store.claim("held", &VALUE, TTL).await.unwrap();
    let reader = pool();
    let mut reading = reader.begin().await.unwrap();
    Sqlite::look(&mut reading).await;
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::NotApplied);
    let swap = store.replace("held", &VALUE, &OTHER, TTL).await;
    assert_eq!(kind(swap), StoreErrorKind::NotApplied);
    let removal = store.remove("held", &VALUE).await;
    assert_eq!(kind(removal), StoreErrorKind::NotApplied);
    reading.rollback().await.unwrap();
    assert_eq!(store.get("key").await.unwrap(), None);
    assert_eq!(store.get("held").await.unwrap().unwrap().value, VALUE);
}

#[tokio::test]
async fn a_closed_port_is_reported_at_once_and_without_the_password() {
    let port = Port::free().unwrap();
    let closed = format!("127.0.0.1:{}", port.number());
    let postgres = format!("postgres://user:s3cret@{closed}/database");
    let mysql = format!("mysql://user:s3cret@{closed}/database");
    for url in [&postgres, &mysql] {
        takes_less_than(Duration::from_secs(6), async || {
            let error = Idempotency::from_url(url).await.unwrap_err();
            let text = format!("{error:?}");
            assert!(text.contains("refused the connection"), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        })
        .await;
    }
    let error = PostgresStore::connect(&postgres).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotApplied);
    let error = MySqlStore::connect(&mysql).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotApplied);
    let error = SqliteStore::connect("sqlite:/no/such/folder/file")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn a_refused_login_is_a_misconfiguration() {
    let postgres = Postgres::url();
    let (address, _) = postgres.rsplit_once('/').unwrap();
    let error = PostgresStore::connect(&format!("{address}/nowhere")).await;
    assert_eq!(kind(error), StoreErrorKind::Misconfigured);
    let stranger = postgres.replace("postgres@", "stranger@");
    let error = PostgresStore::connect(&stranger).await;
    assert_eq!(kind(error), StoreErrorKind::Misconfigured);
    let mysql = MySql::url();
    let (_, address) = mysql.rsplit_once('@').unwrap();
    let stranger = format!("mysql://stranger:s3cret@{address}");
    let error = MySqlStore::connect(&stranger).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(!chain(&error).contains("s3cret"));
    let (server, _) = mysql.rsplit_once('/').unwrap();
    for url in [format!("{server}/nowhere"), server.to_owned()] {
        let error = MySqlStore::connect(&url).await;
        assert_eq!(kind(error), StoreErrorKind::Misconfigured, "{url}");
    }
}

#[tokio::test]
async fn an_invalid_url_is_a_misconfiguration() {
    for url in [
        "",
        "nonsense",
        "mysql://host/db",
        "redis://host",
        "postgres",
        "postgres://u:s3cret@h:99999/d",
    ] {
        let error = PostgresStore::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
        assert!(!chain(&error).contains("s3cret"));
    }
    for url in [
        "",
        "postgres://host/db",
        "mysql",
        "mariadb://u:s3cret@h:99999/d",
    ] {
        let error = MySqlStore::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
        assert!(!chain(&error).contains("s3cret"));
    }
    for url in [
        "",
        "file",
        "sqlite",
        "sqlite:file?mode=odd",
        "sqlite:file?what=that",
    ] {
        let error = SqliteStore::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
    }
}

#[tokio::test]
async fn a_file_of_another_format_is_a_misconfiguration() {
    let path = file();
    fs::write(
        &path,
        "this was something else, and it is long enough to be read".repeat(100),
    )
    .unwrap();
    let error = SqliteStore::connect(&format!("sqlite:{}", path.display())).await;
    assert_eq!(kind(error), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn a_closed_pool_applies_nothing() {
    let postgres = postgres().await;
    postgres.pool().close().await;
    let claim = postgres.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::NotApplied);
    let mysql = mysql().await;
    mysql.pool().close().await;
    assert_eq!(kind(mysql.get("key").await), StoreErrorKind::NotApplied);
    let sqlite = sqlite().await;
    sqlite.pool().close().await;
    assert_eq!(kind(sqlite.get("key").await), StoreErrorKind::NotApplied);
}
