//! What the doctor finds in a database.

use idempotent_runtime::Store;
use idempotent_runtime::store::Level;
use idempotent_sql::sql::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use idempotent_sql::sql::sqlx::{MySql, Postgres, Sqlite};
use idempotent_sql::{MySqlStore, SqliteStore};

use crate::store::databases::{
    Fresh, chain, connected, leave_expired, mysql, narrow, postgres, store,
};
use support::databases::{Kind, file};
use support::patient::patient;

async fn findings_of(store: impl Store) -> String {
    patient(store).doctor().await.to_string()
}

fn assert_says(level: Level, what: &str, findings: &str) {
    let finding = findings.lines().find(|line| line.contains(what));
    let finding = finding.unwrap_or_else(|| panic!("a finding must contain {what:?}:\n{findings}"));
    assert!(finding.starts_with(&level.to_string()), "{finding}");
}

#[tokio::test]
async fn settings_with_which_postgres_may_lose_records_are_reported() {
    let url = Postgres::url();
    let options = "options[synchronous_commit]=off&options[default_transaction_read_only]=on";
    let store = connected::<Postgres>(&url).await;
    let unlogged = "ALTER TABLE idempotence SET UNLOGGED";
    Postgres::run(store.pool(), unlogged).await.unwrap();
    let careless = narrow::<Postgres>(&url);
    let findings = findings_of(careless.await).await;
    assert_says(Level::Warning, "the table is not logged", &findings);
    assert_says(Level::Note, "lock_timeout is not set", &findings);
    let url = format!("{url}?{options}");
    let reader = connected::<Postgres>(&url).await;
    let findings = findings_of(reader).await;
    assert_says(Level::Warning, "synchronous_commit is off", &findings);
    assert_says(Level::Problem, "read-only", &findings);
    assert!(!findings.contains("lock_timeout"));
}

#[tokio::test]
async fn settings_with_which_mysql_loses_or_confuses_records_are_reported() {
    let store = mysql().await;
    leave_expired(&store, "expired").await;
    let findings = findings_of(store.clone()).await;
    assert_says(Level::Fine, "1 records have expired", &findings);
    let alter = "ALTER TABLE idempotence ENGINE = MyISAM, MODIFY `key` VARCHAR(200) NOT NULL";
    MySql::run(store.pool(), alter).await.unwrap();
    let findings = findings_of(store).await;
    assert_says(Level::Problem, "not InnoDB", &findings);
    assert_says(Level::Problem, "keys are text", &findings);
}

#[tokio::test]
async fn a_file_that_may_lose_records_is_reported() {
    for (journal, synchronous, level, what) in [
        (
            SqliteJournalMode::Wal,
            SqliteSynchronous::Normal,
            Level::Warning,
            "not synced",
        ),
        (
            SqliteJournalMode::Memory,
            SqliteSynchronous::Full,
            Level::Warning,
            "not on disk",
        ),
        (
            SqliteJournalMode::Delete,
            SqliteSynchronous::Full,
            Level::Note,
            "not a write-ahead log",
        ),
        (
            SqliteJournalMode::Wal,
            SqliteSynchronous::Full,
            Level::Note,
            "busy_timeout is long",
        ),
    ] {
        let options = SqliteConnectOptions::new()
            .filename(file())
            .create_if_missing(true)
            .journal_mode(journal)
            .synchronous(synchronous);
        let store = SqliteStore::new(SqlitePoolOptions::new().connect_lazy_with(options));
        store.migrate().await.unwrap();
        assert_says(level, what, &findings_of(store).await);
    }
}

#[tokio::test]
async fn newer_and_missing_tables_are_reported() {
    let newer = postgres().await;
    let version = "UPDATE idempotence_version SET version = 7";
    Postgres::run(newer.pool(), version).await.unwrap();
    assert_says(Level::Note, "version 7", &findings_of(newer).await);
    let missing = store::<Sqlite>().await;
    Sqlite::run(missing.pool(), "DROP TABLE idempotence")
        .await
        .unwrap();
    let findings = findings_of(missing).await;
    assert_says(Level::Problem, "has no table `idempotence`", &findings);
}

on_every_database! { missing_tables_are_the_only_finding }

async fn missing_tables_are_the_only_finding<DB: Fresh>() {
    let store = store::<DB>().await;
    for table in ["idempotence", "idempotence_lock", "idempotence_version"] {
        let drop = format!("DROP TABLE IF EXISTS {table}");
        DB::run(store.pool(), &drop).await.unwrap();
    }
    let handle = patient(store.clone());
    let diagnosis = handle.doctor().await;
    let bad = diagnosis.findings().iter();
    let bad: Vec<_> = bad
        .filter(|finding| finding.level() > Level::Note)
        .collect();
    assert_eq!(bad.len(), 1, "{diagnosis}");
    assert_says(
        Level::Problem,
        "has no table `idempotence` (call `sql::migrate` at every start, run `idempotence migrate`, or apply the statements of `sql::schema`)",
        &diagnosis.to_string(),
    );
    for invented in [
        "the engine of the table",
        "keys are text",
        "version of the tables",
        "could not be read",
        "expired",
    ] {
        assert!(!diagnosis.to_string().contains(invented), "{diagnosis}");
    }
    store.migrate().await.unwrap();
    let whole = handle.doctor().await;
    assert_says(Level::Fine, "every operation works", &whole.to_string());
}

#[tokio::test]
async fn an_unreachable_database_is_reported() {
    let store: MySqlStore = mysql().await;
    store.pool().close().await;
    let error = store.get("key").await.unwrap_err();
    let findings = findings_of(store).await;
    assert!(
        findings.contains("the setup of the database could not be read"),
        "{findings}: {}",
        chain(&error)
    );
}
