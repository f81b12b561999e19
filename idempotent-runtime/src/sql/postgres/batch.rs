//! Many changes with one commit in PostgreSQL: one statement for all changes of a kind.
//!
//! Two batches cannot deadlock: claims and counts lock their rows in the order of the keys, and later statements skip locked
//! rows. The transaction is READ COMMITTED, so each statement sees what was committed before it began.

use bytes::Bytes;
use sqlx::{Connection as _, Executor as _, PgConnection, Postgres, Row as _, query};

use crate::sql::database::batch::{Batch, Change, Failed, Found, Request, Stage};

/// A transaction with an uncommitted row, or with a lock on an expired row, delays the claims of a batch for this time. Then
/// they are sent alone, where the session's own `lock_timeout` holds.
///
/// A process that stops between two statements keeps its rows locked for the second time: then the server ends the session, and
/// nothing of the batch is applied.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SET LOCAL lock_timeout = '100ms'; SET LOCAL idle_in_transaction_session_timeout = '1s'";

// $1 keys, $2 expected values, $3 values, $4 microseconds.

const CLAIM: &str = "
INSERT INTO idempotence AS old (key, value, expires_at)
SELECT new.key, new.value, statement_timestamp() + new.micros * interval '1 microsecond'
FROM unnest($1::text[], $3::bytea[], $4::bigint[]) AS new (key, value, micros)
WHERE NOT EXISTS (
    SELECT FROM idempotence AS live WHERE live.key = new.key AND live.expires_at > statement_timestamp()
)
ORDER BY new.key COLLATE \"C\"
ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at
WHERE old.expires_at <= statement_timestamp()
RETURNING key";

/// The rows of the keys $1 that no other transaction has locked. They are locked before the first row is changed.
macro_rules! locked {
    ($strength:literal) => {
        concat!(
            "stored.key = ANY (ARRAY (SELECT key FROM idempotence WHERE key = ANY ($1) ORDER BY key ",
            $strength,
            " SKIP LOCKED)) AND stored.key = wanted.key AND stored.value = wanted.expected \
             AND stored.expires_at > statement_timestamp() RETURNING stored.key"
        )
    };
}

const RENEW: &str = concat!(
    "UPDATE idempotence AS stored \
     SET expires_at = statement_timestamp() + wanted.micros * interval '1 microsecond' \
     FROM unnest($1::text[], $2::bytea[], $4::bigint[]) AS wanted (key, expected, micros) WHERE ",
    locked!("FOR NO KEY UPDATE")
);

/// Without microseconds the remaining time does not change.
const REPLACE: &str = concat!(
    "UPDATE idempotence AS stored SET value = wanted.value, expires_at = coalesce( \
         statement_timestamp() + wanted.micros * interval '1 microsecond', stored.expires_at) \
     FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]) AS wanted (key, expected, value, micros) WHERE ",
    locked!("FOR NO KEY UPDATE")
);

const REMOVE: &str = concat!(
    "DELETE FROM idempotence AS stored \
     USING unnest($1::text[], $2::bytea[]) AS wanted (key, expected) WHERE ",
    locked!("FOR UPDATE")
);

/// $1 keys. Without a value if this is large: the values of a batch are in memory at the same time.
const GET: &str = "
SELECT key, CASE WHEN octet_length(value) <= 16384 THEN value END FROM idempotence
WHERE key = ANY ($1) AND expires_at > statement_timestamp()";

impl Batch for Postgres {
    /// Five round trips if all kinds of changes are in the batch and all changes are done. Each count is one more.
    async fn change_many(
        connection: &mut PgConnection,
        requests: &[&Request],
        most: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        let begun = connection.begin_with(BEGIN).await;
        let mut transaction = begun.map_err(|error| Stage::Begin.failed(error))?;
        let mut found: Vec<_> = requests.iter().map(|_| None).collect();
        if let Err(failed) = change_all(&mut transaction, requests, most, &mut found).await {
            // A failed rollback is repeated before the connection is used again.
            let _ = transaction.rollback().await;
            return Err(failed);
        }
        let committed = transaction.commit().await;
        committed.map_err(|error| Stage::Commit.failed(error))?;
        // If this fails, the changes that are not done go alone.
        let _ = read_stored(connection, requests, &mut found).await;
        Ok(found)
    }
}

/// The changes of one kind, sorted by key.
#[derive(Default)]
struct Kind<'a> {
    /// Their places in the batch.
    places: Vec<usize>,
    keys: Vec<&'a str>,
    expected: Vec<&'a [u8]>,
    values: Vec<&'a [u8]>,
    micros: Vec<Option<i64>>,
}

impl<'a> Kind<'a> {
    fn add(&mut self, place: usize, key: &'a str) -> &mut Self {
        self.places.push(place);
        self.keys.push(key);
        self
    }

    fn replace(&mut self, expected: &'a [u8], value: &'a [u8], micros: Option<i64>) {
        self.expected.push(expected);
        self.values.push(value);
        self.micros.push(micros);
    }

    /// Runs a statement, and notes which changes are done: it returns their keys.
    async fn run(
        &self,
        transaction: &mut PgConnection,
        statement: &'static str,
        found: &mut [Option<Found>],
    ) -> Result<(), Failed> {
        let stage = match self.places[..] {
            [] => return Ok(()),
            [place] => Stage::Change(place),
            _ => Stage::Changes,
        };
        let changes = query(statement).bind(&self.keys).bind(&self.expected);
        let changes = changes.bind(&self.values).bind(&self.micros);
        let rows = transaction.fetch_all(changes).await;
        for row in rows.map_err(|error| stage.failed(error))? {
            let key: &str = row.try_get(0).map_err(|error| stage.failed(error))?;
            if let Ok(at) = self.keys.binary_search(&key) {
                found[self.places[at]] = Some(Found::Done);
            }
        }
        Ok(())
    }
}

/// Makes the changes, and notes which of them are done.
async fn change_all(
    transaction: &mut PgConnection,
    requests: &[&Request],
    most: i32,
    found: &mut [Option<Found>],
) -> Result<(), Failed> {
    let [mut claims, mut renewals, mut replacements, mut removals] = <[Kind<'_>; 4]>::default();
    let mut counts = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        let key = &*request.key;
        match &request.change {
            Change::Claim { value, micros } => {
                let claims = claims.add(place, key);
                claims.values.push(value);
                claims.micros.push(Some(*micros));
            }
            Change::Renew { expected, micros } => {
                let renewals = renewals.add(place, key);
                renewals.expected.push(expected);
                renewals.micros.push(Some(*micros));
            }
            Change::Replace {
                expected,
                value,
                micros,
            } => replacements
                .add(place, key)
                .replace(expected, value, Some(*micros)),
            Change::Exchange { expected, value } => {
                replacements.add(place, key).replace(expected, value, None);
            }
            Change::Remove { expected } => removals.add(place, key).expected.push(expected),
            Change::Count { .. } => counts.push(place),
        }
    }
    claims.run(transaction, CLAIM, found).await?;
    for place in counts {
        let counted = requests[place].send::<Postgres>(transaction, most).await;
        found[place] = counted.map_err(|error| Stage::Change(place).failed(error))?;
    }
    renewals.run(transaction, RENEW, found).await?;
    replacements.run(transaction, REPLACE, found).await?;
    removals.run(transaction, REMOVE, found).await
}

/// What is stored under a key.
#[derive(Clone)]
enum Stored {
    Nothing,
    Small(Bytes),
    Large,
}

/// Notes what is stored under the keys of the changes that are not done.
async fn read_stored(
    connection: &mut PgConnection,
    requests: &[&Request],
    found: &mut [Option<Found>],
) -> sqlx::Result<()> {
    let is_read = |place: &usize| {
        let is_count = matches!(requests[*place].change, Change::Count { .. });
        found[*place].is_none() && !is_count
    };
    let places: Vec<usize> = (0..requests.len()).filter(is_read).collect();
    if places.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = places.iter().map(|place| &*requests[*place].key).collect();
    let stored = connection.fetch_all(query(GET).bind(&keys)).await?;
    let mut values = vec![Stored::Nothing; keys.len()];
    for row in stored {
        let (key, value): (&str, Option<&[u8]>) = (row.try_get(0)?, row.try_get(1)?);
        if let Ok(at) = keys.binary_search(&key) {
            values[at] = value.map_or(Stored::Large, |value| {
                Stored::Small(Bytes::copy_from_slice(value))
            });
        }
    }
    for (place, value) in places.into_iter().zip(values) {
        found[place] = match value {
            Stored::Nothing => requests[place].find(None),
            Stored::Small(value) => requests[place].find(Some(value)),
            // The change goes alone, and reads the record.
            Stored::Large => None,
        };
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::{Duration, Instant};

    use idempotence_test_servers::PostgresServer;
    use sqlx::{AssertSqlSafe, raw_sql};

    use super::*;
    use crate::sql::store::PostgresStore;
    use crate::store::{Claim, Store as _};

    #[tokio::test]
    async fn a_process_that_stops_in_the_middle_of_a_batch_frees_its_keys() {
        let url = PostgresServer::shared().unwrap().database().unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        let mut stopped = store.pool().acquire().await.unwrap();
        let mut transaction = stopped.begin_with(BEGIN).await.unwrap();
        let (value, ttl) = (Bytes::from_static(b"value"), Duration::from_mins(1));
        let micros = 60_000_000_i64;
        let claim = query(CLAIM).bind(vec!["key"]).bind(vec![&b""[..]]);
        let claim = claim.bind(vec![&value[..]]).bind(vec![micros]);
        assert_eq!(transaction.fetch_all(claim).await.unwrap().len(), 1);
        let since = Instant::now();
        let other = Bytes::from_static(b"other");
        loop {
            match store.claim("key", &other, ttl).await {
                Ok(claim) => break assert_eq!(claim, Claim::Claimed),
                // The row is locked.
                Err(_) => assert!(since.elapsed() < Duration::from_secs(20)),
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
            for statement in [CLAIM, RENEW, REPLACE, REMOVE] {
                let explain = query(AssertSqlSafe(format!("EXPLAIN {statement}")));
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
    }
}
