//! What the statements of a batch find and change.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join_all;

use super::*;

/// A counter remembers its last 32 attempts.
#[test]
fn an_attempt_has_its_number_although_others_count_right_after_it() {
    let rule = async |store: MySqlStore| {
        insert(&store, &[row("taken", "no counter", 3600)]).await;
        let mut connection = store.pool().acquire().await.unwrap();
        let requests = ["counter", "counter", "taken"].into_iter().zip(1..);
        let requests = requests.map(|(key, attempt)| ChangeRequest::new(key, count(attempt)));
        // Another process changes the counters right after the commit.
        let forgets = format!(
            "{}UPDATE idempotence SET value = 'forgotten'; ",
            sql::COMMIT
        );
        alter(move |transaction| damaged(transaction.replace(sql::COMMIT, &forgets)));
        let found = send(&mut connection, requests.collect()).await;
        alter(damaged);
        let numbers = found.unwrap().into_iter().map(|(_, found)| match found {
            Some(Found::Counted(counted)) => counted.number.ok(),
            _ => None,
        });
        numbers.collect::<Vec<_>>() == [Some(1), Some(2), None]
    };
    assert_kept(rule, &[Mutation::ReadsCountsLate]);
}

/// The other changes are done before the row is unlocked. MariaDB and MySQL wait for at least a second for a lock.
#[test]
fn a_locked_row_is_skipped() {
    let rule = async |store: MySqlStore| {
        let changes: [Named; 6] = [
            ("value", renew),
            ("value", replace),
            ("value", exchange),
            ("value", remove),
            ("expired", claim),
            ("absent", claim),
        ];
        for (stored, change) in changes {
            run(&store, "DELETE FROM idempotence").await;
            let mut rows: Vec<_> = match stored {
                "value" => (0..40)
                    .map(|at| row(&format!("{at}"), "value", 3600))
                    .collect(),
                _ => Vec::new(),
            };
            match stored {
                "value" => rows.push(row("locked", "value", 3600)),
                "expired" => rows.push(row("locked", "value", -1)),
                _ => {}
            }
            insert(&store, &rows).await;
            let lock = match stored {
                "absent" => format!("INSERT INTO idempotence VALUES {}", row("locked", "held", 3600)),
                _ => "UPDATE idempotence SET value = 'held', expires_at = expires_at + INTERVAL 1 HOUR \
                      WHERE `key` = 'locked'"
                    .to_owned(),
            };
            let lock = begin(&store, &lock).await;
            let mut connection = store.pool().acquire().await.unwrap();
            let mut requests: Vec<_> = (0..40)
                .map(|at| ChangeRequest::new(&format!("{at}"), change()))
                .collect();
            requests.push(ChangeRequest::new("locked", change()));
            let Ok(found) = send(&mut connection, requests).await else {
                return false;
            };
            let is_kept = found.iter().all(|(key, found)| match &**key {
                "locked" => found.is_none(),
                _ => matches!(found, Some(Found::Done)),
            });
            lock.rollback().await.unwrap();
            if !is_kept {
                return false;
            }
        }
        true
    };
    assert_kept(rule, &[Mutation::WaitsForLocked, Mutation::InsertsLocked]);
}

#[test]
fn a_locked_counter_is_skipped() {
    let rule = async |store: MySqlStore| {
        let mut connection = store.pool().acquire().await.unwrap();
        let counts =
            |attempt| ["free", "locked"].map(|key| ChangeRequest::new(key, count(attempt)));
        send(&mut connection, counts(1).into()).await.unwrap();
        let lock = "UPDATE idempotence SET expires_at = expires_at + INTERVAL 1 HOUR WHERE `key` = 'locked'";
        let lock = begin(&store, lock).await;
        let found = send(&mut connection, counts(2).into()).await;
        lock.rollback().await.unwrap();
        let Ok(found) = found else {
            return false;
        };
        found[0].1.is_some() && found[1].1.is_none()
    };
    assert_kept(rule, &[Mutation::WaitsForLocked, Mutation::InsertsLocked]);
}

/// The batch waits for a removal that is not committed. Meanwhile others change a row that the batch found.
#[test]
fn no_answer_is_older_than_the_commit_or_uncommitted() {
    let rule = async |store: MySqlStore| {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            run(&store, "DELETE FROM idempotence").await;
            let rows = [
                row("a removed", "value", 3600),
                row("taken", "old", 3600),
                row("dirty", "clean", 3600),
            ];
            insert(&store, &rows).await;
            let dirty = begin(
                &store,
                "UPDATE idempotence SET value = 'dirty' WHERE `key` = 'dirty'",
            )
            .await;
            let removal = begin(&store, "DELETE FROM idempotence WHERE `key` = 'a removed'").await;
            let mut connection = store.pool().acquire().await.unwrap();
            // MySQL keeps the last row locked that it reads.
            let keys = ["a removed", "dirty", "taken", "unused"];
            let mut requests = keys.map(|key| ChangeRequest::new(key, claim()));
            let batch = send_once(&mut connection, &mut requests);
            let change = async {
                while !is_running(&store, "max_statement", "_time").await
                    && Instant::now() < deadline
                {}
                run(
                    &store,
                    "UPDATE idempotence SET value = 'new' WHERE `key` = 'taken'",
                )
                .await;
                removal.commit().await.unwrap();
            };
            let (found, ()) = futures_util::future::join(batch, change).await;
            dirty.rollback().await.unwrap();
            match found {
                Ok(found) => {
                    return text(&found, "a removed") == "Some(Done)"
                        && text(&found, "dirty") == "Some(Other(b\"clean\"))"
                        && text(&found, "taken") == "Some(Other(b\"new\"))";
                }
                // The batch waits only for a short time.
                Err(failed) => {
                    assert_eq!(failed.stage, Stage::Changes);
                    assert!(Instant::now() < deadline, "{failed:?}");
                }
            }
        }
    };
    assert_kept(rule, &[Mutation::ReadsInTransaction]);
}

#[test]
fn large_changes_and_long_keys_are_left_out() {
    let rule = async |store: MySqlStore| {
        let mut connection = store.pool().acquire().await.unwrap();
        let large = Change::Claim {
            value: vec![b'x'; 70_000].into(),
            micros: MICROS,
        };
        let requests = vec![
            ChangeRequest::new("large", large),
            ChangeRequest::new(&"l".repeat(513), claim()),
            ChangeRequest::new("\u{1F980} \"quoted\" \\ \0", claim()),
        ];
        let found = send(&mut connection, requests).await.unwrap();
        let done = found
            .iter()
            .filter(|(_, found)| matches!(found, Some(Found::Done)));
        let done: Vec<_> = done.map(|(key, _)| &**key).collect();
        let stored = store.get(done[0]).await.unwrap();
        done == ["\u{1F980} \"quoted\" \\ \0"] && stored.is_some_and(|entry| entry.value == VALUE)
    };
    assert_kept(rule, &[]);
}

/// What the statements of a batch set before they lock rows.
const SEEN: &str = "SET @idempotence_now = UTC_TIMESTAMP(6), @idempotence_seen0 = 1, \
     @idempotence_seen1 = 0, @idempotence_seen2 = 0, @idempotence_seen3 = 0, @idempotence_seen4 = 0, \
     @idempotence_seen5 = 0, @idempotence_seen6 = 0, @idempotence_seen7 = 0";

#[tokio::test]
async fn mysql_finds_the_rows_of_a_batch_by_their_keys() {
    let url = MariaDbServer::shared().unwrap().database().unwrap();
    let store = MySqlStore::connect(&url).await.unwrap();
    for rows in (0..20_000).collect::<Vec<_>>().chunks(1000) {
        let rows = rows
            .iter()
            .map(|at| row(&format!("key {at}"), "value", at % 7 - 3));
        insert(&store, &rows.collect::<Vec<_>>()).await;
    }
    run(&store, "ANALYZE TABLE idempotence").await;
    let mut connection = store.pool().acquire().await.unwrap();
    let changes: [fn() -> Change; 5] = [claim, renew, replace, remove, || count(1)];
    let requests =
        (0..200).map(|at| ChangeRequest::new(&format!("key {}", at * 7), changes[at % 5]()));
    let requests: Vec<_> = requests.collect();
    let documents = Documents::from_requests(&requests.iter().collect::<Vec<_>>());
    let mut set = query(sql::SET).bind("batch");
    for text in documents.texts() {
        set = set.bind(text);
    }
    connection.execute(set).await.unwrap();
    connection.execute(raw_sql(SEEN)).await.unwrap();
    let transaction = Transaction::new(&documents).text;
    let mut lookups = 0;
    for statement in transaction.split("; ") {
        let Some((_, statement)) = statement
            .split_once("idempotence AS s")
            .map(|_| ("", statement.trim_start()))
        else {
            continue;
        };
        let explain = AssertSqlSafe(format!("EXPLAIN FORMAT = TRADITIONAL {statement}"));
        for row in connection.fetch_all(raw_sql(explain)).await.unwrap() {
            if row.get::<Option<String>, _>("table").as_deref() == Some("s") {
                assert_eq!(row.get::<String, _>("key"), "PRIMARY", "{statement}");
                assert_eq!(row.get::<String, _>("type"), "eq_ref", "{statement}");
                lookups += 1;
            }
        }
    }
    assert_eq!(lookups, 4 + 2 * 3 + 5);
}

/// MySQL 5.7 and MariaDB 10.5 do not know `JSON_TABLE`.
#[test]
fn a_server_that_cannot_make_batches_gets_one() {
    let rule = async |store: MySqlStore| {
        let batches = Rc::new(Cell::new(0));
        let count = Rc::clone(&batches);
        alter(move |transaction| {
            count.set(count.get() + 1);
            transaction.replace("JSON_TABLE(", "NO_JSON_TABLE(")
        });
        for round in 0..3 {
            let keys: Vec<_> = (0..40).map(|key| format!("{round} {key}")).collect();
            let claims = keys
                .iter()
                .map(async |key| store.claim(key, &VALUE, TTL).await);
            for claim in join_all(claims).await {
                assert_eq!(claim.expect("a claim"), Claim::Claimed);
            }
        }
        alter(damaged);
        batches.get() == 1
    };
    assert_kept(rule, &[Mutation::SendsRefused]);
}
