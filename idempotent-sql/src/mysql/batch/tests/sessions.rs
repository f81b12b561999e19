//! What a batch needs of its session, and what it leaves there.

use super::*;

/// Sessions whose settings could change what statements mean.
const SESSIONS: [&str; 7] = [
    "DO 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SET SESSION sql_select_limit = 1",
    "SET SESSION completion_type = CHAIN",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET SESSION time_zone = '-03:30'",
    "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY'",
    "SET SESSION sql_mode = 'TRADITIONAL,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
];

#[test]
fn each_change_finds_what_is_stored_in_any_session() {
    let rule = async |store: MySqlStore| {
        for session in SESSIONS {
            run(&store, "DELETE FROM idempotence").await;
            let mut connection = store.pool().acquire().await.unwrap();
            connection.execute(raw_sql(session)).await.unwrap();
            if !each_change_finds_what_is_stored(&store, &mut connection).await {
                return false;
            }
        }
        true
    };
    assert_kept(rule, &[Mutation::AnswersForAllRows]);
}

/// 80 changes of each kind, so their sets need more than 64 bits.
async fn each_change_finds_what_is_stored(
    store: &MySqlStore,
    connection: &mut MySqlConnection,
) -> bool {
    let changes: [Named; 5] = [
        ("claim", claim),
        ("renew", renew),
        ("replace", replace),
        ("exchange", exchange),
        ("remove", remove),
    ];
    let (mut requests, mut rows) = (Vec::new(), Vec::new());
    for (name, change) in changes {
        for at in 0..20 {
            for stored in ["own", "other", "expired", "absent"] {
                let key = format!("{name} {stored} {at}");
                match stored {
                    "own" => rows.push(row(&key, "value", 3600)),
                    "other" => rows.push(row(&key, "another", 3600)),
                    "expired" => rows.push(row(&key, "value", -1)),
                    _ => {}
                }
                requests.push(ChangeRequest::new(&key, change()));
            }
        }
    }
    insert(store, &rows).await;
    let found = send(connection, requests).await.unwrap();
    found.iter().all(|(key, found)| {
        let expected = if key.contains("other") {
            "Some(Other(b\"another\"))"
        } else if key.contains("claim") || key.contains("own") {
            "Some(Done)"
        } else {
            "Some(Absent)"
        };
        format!("{found:?}") == expected
    })
}

/// The attempts are sent twice, as after a lost answer.
#[test]
fn attempts_at_one_counter_are_added_together() {
    let rule = async |store: MySqlStore| {
        for session in SESSIONS {
            run(&store, "DELETE FROM idempotence").await;
            insert(&store, &[row("expired", "value", -1)]).await;
            let mut connection = store.pool().acquire().await.unwrap();
            connection.execute(raw_sql(session)).await.unwrap();
            for _ in 0..2 {
                let attempts = (0..16).flat_map(|attempt| {
                    ["expired", "new", "newer"].map(|key| ChangeRequest::new(key, count(attempt)))
                });
                let found = send(&mut connection, attempts.collect()).await.unwrap();
                let numbers = found.into_iter().map(|(key, found)| {
                    let found = found.expect("an answer").into_count();
                    assert!(found.as_ref().unwrap().remaining > TTL / 2);
                    (key, found.unwrap().attempt)
                });
                let expected = ["expired", "new", "newer"]
                    .into_iter()
                    .flat_map(|key| (1..=16).map(move |number| (key.to_owned(), number)));
                if !numbers.eq(expected) {
                    return false;
                }
            }
        }
        true
    };
    assert_kept(rule, &[Mutation::RepeatsCounts]);
}

#[test]
fn a_batch_that_fails_leaves_no_trace() {
    let rule = async |store: MySqlStore| {
        run(
            &store,
            "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (`key` <> 'refused')",
        )
        .await;
        insert(&store, &[row("held", "value", 3600)]).await;
        let mut connection = store.pool().acquire().await.unwrap();
        let patience = "SET SESSION innodb_lock_wait_timeout = 7";
        connection.execute(raw_sql(patience)).await.unwrap();
        let requests = ["absent", "refused"].map(|key| ChangeRequest::new(key, claim()));
        let mut requests = Vec::from(requests);
        requests.push(ChangeRequest::new("held", remove()));
        let failed = send(&mut connection, requests).await.unwrap_err();
        assert_eq!(failed.stage, Stage::Changes);
        assert!(!failed.is_unusable);
        let wait = query_scalar("SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)");
        let wait: i64 = wait.fetch_one(&mut *connection).await.unwrap();
        // The connection is open, so an open transaction would keep its rows.
        let absent = async { store.claim("absent", &OTHER, TTL).await };
        let absent = timeout(Duration::from_secs(10), absent).await;
        let held = store.get("held").await.unwrap();
        wait == 7 && matches!(absent, Ok(Ok(Claim::Claimed))) && held.is_some()
    };
    assert_kept(rule, &[Mutation::LeavesTransaction]);
}

/// The answer is larger than the buffers of the connection, and nobody reads it.
#[test]
fn a_process_that_stops_in_the_middle_of_a_batch_keeps_no_row_locked() {
    let rule = async |store: MySqlStore| {
        // A busy server may need longer than a claim may take, and would stop the batch. It is not the rule of this test.
        alter(|transaction| {
            let limit = "max_statement_time = 0.1";
            assert!(transaction.contains(limit));
            damaged(transaction.replace(limit, "max_statement_time = 60"))
        });
        let value = "v".repeat(16_384);
        for rows in (0..512).collect::<Vec<_>>().chunks(64) {
            let rows = rows
                .iter()
                .map(|at| row(&format!("taken {at}"), &value, 3600));
            insert(&store, &rows.collect::<Vec<_>>()).await;
        }
        insert(&store, &[row("held", "value", 3600)]).await;
        let mut stopped = store.pool().acquire().await.unwrap();
        let mut requests: Vec<_> = (0..511)
            .map(|at| ChangeRequest::new(&format!("taken {at}"), claim()))
            .collect();
        requests.push(ChangeRequest::new("held", replace()));
        requests.sort_by(|one, other| one.key.cmp(&other.key));
        let requests: Vec<&ChangeRequest> = requests.iter().collect();
        let mut batch = Box::pin(MySql::change_many(&mut stopped, &requests, i32::MAX));
        // Until the request is sent. After this nobody polls the batch.
        let deadline = Instant::now() + MAX_WAIT;
        while !is_running(&store, "JSON", "_TABLE").await && Instant::now() < deadline {
            if (&mut batch).now_or_never().is_some() {
                break;
            }
        }
        // Longer than a busy server needs for the batch. The mistake locks the row for ever. A read locks no row, which the batch
        // would skip.
        let since = Instant::now();
        while store.get("held").await.unwrap().unwrap().value != OTHER {
            if since.elapsed() > MAX_WAIT / 3 {
                return false;
            }
        }
        let removal = store.remove("held", &OTHER).await;
        matches!(removal, Ok(Swap::Done))
    };
    assert_kept(rule, &[Mutation::ReadsInTransaction]);
}

#[tokio::test]
async fn the_answers_of_a_session_without_the_changes_are_unknown() {
    let url = MariaDbServer::shared().unwrap().database().unwrap();
    let store = MySqlStore::connect(&url).await.unwrap();
    let changes = [claim(), renew(), replace(), remove()];
    let keys = ["a", "b", "c", "d"];
    let requests = keys.into_iter().zip(changes);
    let requests: Vec<_> = requests
        .map(|(key, change)| ChangeRequest::new(key, change))
        .collect();
    let requests: Vec<&ChangeRequest> = requests.iter().collect();
    let documents = Documents::from_requests(&requests);
    let mut answers = BatchAnswers::new(&requests, &documents);
    let mut connection = store.pool().acquire().await.unwrap();
    // A proxy has sent the variables to another session.
    let transaction = Transaction::new(&documents);
    let failed = transaction.run(&mut connection, &mut answers).await;
    assert_eq!(failed.unwrap_err().stage, Stage::Commit);
}
