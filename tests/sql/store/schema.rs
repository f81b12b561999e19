//! How the tables are made.

use idempotent_runtime::store::Claim;
use idempotent_runtime::{Store, StoreErrorKind};
use idempotent_sql::sql::{self, sqlx};
use idempotent_sql::{MySqlStore, PostgresStore};
use tokio::task::JoinSet;

use crate::store::databases::{Fresh, TTL, VALUE, chain, connected, kind, narrow, store};
use support::databases::Kind;

on_every_database! {
    ten_processes_migrate_at_once
    ten_processes_connect_at_once
    migrating_again_changes_nothing
    the_error_of_a_missing_table_says_what_to_do
    newer_tables_do_not_change
    a_table_that_was_dropped_is_made_again
    the_last_migration_leads_to_the_schema
    the_statements_can_be_applied_by_hand
    keys_that_are_equal_in_a_collation_are_different
}

const VERSIONS: &str = "SELECT count(*) FROM idempotence_version";
const FORGET: &str =
    "DROP TABLE idempotence; DROP TABLE idempotence_lock; DROP TABLE idempotence_version";

async fn ten_processes_migrate_at_once<DB: Fresh>() {
    let url = DB::url();
    let mut stores = Vec::new();
    for _ in 0..10 {
        stores.push(connected::<DB>(&url).await);
    }
    let pool = stores[0].pool().clone();
    for _ in 0..3 {
        DB::run(&pool, FORGET).await.unwrap();
        let mut migrating = JoinSet::new();
        for store in stores.clone() {
            migrating.spawn(async move { store.migrate().await });
        }
        for migrated in migrating.join_all().await {
            migrated.unwrap();
        }
        assert_eq!(DB::number(&pool, VERSIONS).await, 1);
    }
}

async fn ten_processes_connect_at_once<DB: Fresh>() {
    let url = DB::url();
    let mut connecting = JoinSet::new();
    for _ in 0..10 {
        let url = url.clone();
        connecting.spawn(async move { connected::<DB>(&url).await });
    }
    for store in connecting.join_all().await {
        assert_eq!(DB::number(store.pool(), VERSIONS).await, 1);
    }
}

async fn migrating_again_changes_nothing<DB: Fresh>() {
    let store = store::<DB>().await;
    store.claim("key", &VALUE, TTL).await.unwrap();
    store.migrate().await.unwrap();
    sql::migrate(store.pool()).await.unwrap();
    assert_eq!(store.get("key").await.unwrap().unwrap().value, VALUE);
    assert_eq!(DB::number(store.pool(), VERSIONS).await, 1);
}

async fn the_error_of_a_missing_table_says_what_to_do<DB: Fresh>() {
    let store = store::<DB>().await;
    DB::run(store.pool(), FORGET).await.unwrap();
    let error = store.claim("key", &VALUE, TTL).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(
        chain(&error).contains("call `sql::migrate` at every start"),
        "{}",
        chain(&error)
    );
    let others = [
        kind(store.replace("key", &VALUE, &VALUE, TTL).await),
        kind(store.remove("key", &VALUE).await),
        kind(store.get("key").await),
        kind(store.purge_expired().await),
    ];
    assert_eq!(others, [StoreErrorKind::Misconfigured; 4]);
    store.migrate().await.unwrap();
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Claimed);
}

async fn a_table_that_was_dropped_is_made_again<DB: Fresh>() {
    let url = DB::url();
    for table in ["idempotence", "idempotence_lock"] {
        let store = connected::<DB>(&url).await;
        let drop = format!("DROP TABLE {table}");
        DB::run(store.pool(), &drop).await.unwrap();
        sql::migrate(store.pool()).await.unwrap();
        let claim = store.claim(table, &VALUE, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Claimed);
        DB::run(store.pool(), &drop).await.unwrap();
        let store = connected::<DB>(&url).await;
        let read = format!("SELECT count(*) FROM {table}");
        assert_eq!(DB::number(store.pool(), &read).await, 0);
    }
}

#[expect(clippy::unused_async, reason = "each case is async")]
async fn the_last_migration_leads_to_the_schema<DB: Fresh>() {
    let last = sql::migrations::<DB>().last().unwrap();
    assert_eq!(last.statements, sql::schema::<DB>());
}

async fn newer_tables_do_not_change<DB: Fresh>() {
    let url = DB::url();
    let store = connected::<DB>(&url).await;
    let newer = "UPDATE idempotence_version SET version = 2; DROP TABLE idempotence_lock";
    DB::run(store.pool(), newer).await.unwrap();
    store.migrate().await.unwrap();
    let store = narrow::<DB>(&url).await;
    let version = "SELECT max(version) FROM idempotence_version";
    assert_eq!(DB::number(store.pool(), version).await, 2);
    let lock = DB::run(store.pool(), "SELECT * FROM idempotence_lock").await;
    lock.unwrap_err();
}

async fn the_statements_can_be_applied_by_hand<DB: Fresh>() {
    let store = store::<DB>().await;
    DB::run(store.pool(), FORGET).await.unwrap();
    for _ in 0..2 {
        DB::run(store.pool(), sql::schema::<DB>()).await.unwrap();
    }
    let claim = store.claim("key", &VALUE, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Claimed);
}

async fn keys_that_are_equal_in_a_collation_are_different<DB: Fresh>() {
    let store = store::<DB>().await;
    for key in ["A", "a", "a ", "ä", "Ä", "a\u{308}"] {
        let claim = store.claim(key, &VALUE, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Claimed, "{key:?}");
    }
    assert_eq!(
        DB::number(store.pool(), "SELECT count(*) FROM idempotence").await,
        6
    );
}

#[tokio::test]
async fn a_user_who_may_not_make_tables_gets_the_statements() {
    let url = sqlx::Postgres::url();
    let admin = PostgresStore::connect(&url).await.unwrap();
    sqlx::Postgres::run(admin.pool(), FORGET).await.unwrap();
    let role = format!("nobody_{}", admin.pool().connect_options().get_port());
    let role = format!("{role}_{}", url.rsplit('_').next().unwrap());
    let create = format!("CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    sqlx::Postgres::run(admin.pool(), &create).await.unwrap();
    let theirs = url.replace("postgres@", &format!("{role}@"));
    let error = PostgresStore::connect(&theirs).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    let text = chain(&error);
    assert!(text.contains(sql::schema::<sqlx::Postgres>()), "{text}");
    // With tables, the user needs only to read the version.
    admin.migrate().await.unwrap();
    let grant = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotence TO {role}; \
         GRANT SELECT ON idempotence_version TO {role}"
    );
    sqlx::Postgres::run(admin.pool(), &grant).await.unwrap();
    let store = PostgresStore::connect(&theirs).await.unwrap();
    store.claim("key", &VALUE, TTL).await.unwrap();
    store.purge_expired().await.unwrap();
}

#[tokio::test]
async fn a_mysql_user_who_may_not_make_tables_gets_the_statements() {
    let url = sqlx::MySql::url();
    let admin = MySqlStore::connect(&url).await.unwrap();
    sqlx::MySql::run(admin.pool(), FORGET).await.unwrap();
    let (_, database) = url.rsplit_once('/').unwrap();
    let create = format!(
        "CREATE USER u_{database} IDENTIFIED BY 's3cret'; GRANT SELECT ON {database}.* TO u_{database}"
    );
    sqlx::MySql::run(admin.pool(), &create).await.unwrap();
    let (_, address) = url.rsplit_once('@').unwrap();
    let theirs = format!("mysql://u_{database}:s3cret@{address}");
    let error = MySqlStore::connect(&theirs).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    let text = chain(&error);
    assert!(text.contains(sql::schema::<sqlx::MySql>()), "{text}");
    assert!(!text.contains("s3cret"));
    admin.migrate().await.unwrap();
    let store = MySqlStore::connect(&theirs).await.unwrap();
    let denied = store.claim("key", &VALUE, TTL).await.unwrap_err();
    assert_eq!(denied.kind(), StoreErrorKind::Misconfigured);
    assert!(chain(&denied).contains("INSERT"), "{}", chain(&denied));
}
