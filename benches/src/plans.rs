//! The plans of the statements of a store and of a call in a transaction, in tables with many rows.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use idempotence::sql::sqlx::mysql::{MySqlPoolOptions, MySqlRow};
use idempotence::sql::sqlx::postgres::PgPoolOptions;
use idempotence::sql::sqlx::{AssertSqlSafe, Executor as _, MySqlPool, PgPool, Pool, Row as _};
use idempotence::sql::sqlx::{query, query_as, query_scalar, raw_sql};
use idempotence::{Idempotency, SqlStore, Store, StoreError};

use crate::on_sql::Statements;

/// A statement and its plan.
pub type Plan = (String, String);

/// The generic plans of `PostgreSQL` for the statements that the client has prepared.
pub(crate) async fn on_postgres(url: &str) -> Vec<Plan> {
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(1)
        .connect(url)
        .await
        .expect("a pool");
    let generic = "SET plan_cache_mode = force_generic_plan";
    pool.execute(generic).await.expect("an answer");
    exercise(&pool).await;
    let prepared = "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements \
                    WHERE statement LIKE '%idempotence%' AND statement NOT LIKE '%pg_prepared%' \
                    AND statement NOT LIKE '%_version%' ORDER BY prepare_time";
    let prepared: Vec<(String, String, i32)> = query_as(prepared)
        .fetch_all(&pool)
        .await
        .expect("an answer");
    let mut plans = Vec::new();
    for (name, statement, parameters) in prepared {
        let parameters = vec!["NULL"; usize::try_from(parameters).expect("a count")].join(", ");
        let explain = AssertSqlSafe(format!("EXPLAIN (COSTS OFF) EXECUTE {name}({parameters})"));
        let lines = pool.fetch_all(raw_sql(explain)).await.expect("a plan");
        let lines = lines.iter().map(|line| line.get::<String, _>(0));
        plans.push((statement, lines.collect::<Vec<_>>().join("\n")));
    }
    plans
}

/// The plans of `MariaDB` for the statements in its log, with their values.
pub(crate) async fn on_mariadb(url: &str) -> Vec<Plan> {
    let pool: MySqlPool = MySqlPoolOptions::new()
        .max_connections(1)
        .connect(url)
        .await
        .expect("a pool");
    let log = "SET GLOBAL log_output = 'TABLE', general_log = ON";
    pool.execute(log).await.expect("an answer");
    exercise(&pool).await;
    pool.execute("SET GLOBAL general_log = OFF")
        .await
        .expect("an answer");
    let logged = "SELECT CAST(argument AS CHAR) FROM mysql.general_log \
                  WHERE command_type = 'Execute' AND argument LIKE '%idempotence%' \
                  AND argument NOT LIKE '%_version%' AND argument NOT LIKE 'SET @%' ORDER BY event_time";
    let logged: Vec<String> = query_scalar(logged)
        .fetch_all(&pool)
        .await
        .expect("an answer");
    let mut plans: Vec<Plan> = Vec::new();
    for statement in logged {
        // `SET STATEMENT … FOR` cannot be explained.
        let plain = statement
            .find("*/")
            .map_or(&*statement, |end| &statement[end + 2..]);
        let explain = query(AssertSqlSafe(format!("EXPLAIN {plain}")));
        let plan = explain.fetch_all(&pool).await.expect("a plan");
        let plan: Vec<String> = plan.iter().map(explained).collect();
        let start = |text: &str| text.chars().take(60).collect::<String>();
        if plans
            .iter()
            .all(|(known, _)| start(known) != start(&statement))
        {
            plans.push((statement, plan.join("\n")));
        }
    }
    plans
}

fn explained(row: &MySqlRow) -> String {
    let text = |column: &str| {
        let text = row.try_get::<Option<String>, _>(column).ok().flatten();
        text.unwrap_or_else(|| "-".to_owned())
    };
    let rows = row.try_get::<Option<u64>, _>("rows").ok().flatten();
    format!(
        "{} on {}, key {}, {} rows, {}",
        text("type"),
        text("table"),
        text("key"),
        rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string()),
        text("Extra"),
    )
}

/// Executes every statement once.
async fn exercise<DB: Statements>(pool: &Pool<DB>) {
    let store = SqlStore::new(pool.clone());
    let (ttl, key) = (Duration::from_secs(30), "idem:bench.plans:it");
    let [one, two] = ["one", "two"].map(|value| value.into());
    store.claim(key, &one, ttl).await.expect("an answer");
    store.claim(key, &two, ttl).await.expect("an answer");
    store
        .replace(key, &one, &two, ttl)
        .await
        .expect("an answer");
    store
        .replace(key, &two, &two, ttl)
        .await
        .expect("an answer");
    store.get(key).await.expect("an answer");
    store.remove(key, &two).await.expect("an answer");
    store.purge_expired().await.expect("an answer");
    in_batches(&store, ttl).await;
    let idempotency = Idempotency::new(store);
    for _ in 0..2 {
        let mut tx = pool.begin().await.expect("a transaction");
        DB::guarded_with_replay(&idempotency, &mut tx).await;
        tx.commit().await.expect("a commit");
    }
}

/// Executes every statement of batches once.
async fn in_batches<DB: Statements>(store: &SqlStore<DB>, ttl: Duration) {
    let keys: Vec<_> = (0..20)
        .map(|key| format!("idem:bench.plans:{key}"))
        .collect();
    let [one, two] = ["one", "two"].map(|value| value.into());
    let claims = keys.iter().map(|key| store.claim(key, &one, ttl));
    join_all(claims).await;
    let replacements = keys.iter().map(|key| store.replace(key, &one, &two, ttl));
    join_all(replacements).await;
    let renewals = keys.iter().map(|key| store.replace(key, &two, &two, ttl));
    join_all(renewals).await;
    let exchanges = keys.iter().map(|key| store.exchange(key, &two, &one));
    join_all(exchanges).await;
    let refusals = keys.iter().map(|key| store.remove(key, &two));
    join_all(refusals).await;
    let removals = keys.iter().map(|key| store.remove(key, &one));
    join_all(removals).await;
}

/// The outputs of all these futures, polled by one task.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        waiting.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                answer.expect("an answer");
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
