//! Lists of keys.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idempotence::Release;

use crate::support::{Program, command, mariadb, put_foreign, redis, run, sqlite};

/// `is_exact`: the store lists no more keys than it is asked for.
fn pages_have_every_key_once(url: &str, limit: usize, is_exact: bool) {
    let program = Program::on(url);
    (0..60).for_each(|id| program.pay(id));
    let most = limit.to_string();
    let (mut digits, mut after, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let mut args = vec!["ls", "--limit", &most, "--json"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let page = run(url, &args).json();
        let records = page["records"].as_array().unwrap();
        assert!(!is_exact || records.len() <= limit, "{}", records.len());
        for record in records {
            assert_eq!(record["state"], "done");
            assert!(
                digits.insert(record["digits"].as_str().unwrap().to_owned()),
                "{record} is there twice"
            );
        }
        pages += 1;
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(digits.len(), 60);
    assert!(pages >= 2, "{pages} pages");
}

#[test]
fn pages_have_every_key_once_on_redis() {
    pages_have_every_key_once(&redis(), 20, false);
}

#[test]
fn pages_have_every_key_once_on_sqlite() {
    for limit in [3, 20] {
        pages_have_every_key_once(&sqlite(), limit, true);
    }
}

#[test]
fn a_page_of_keys_in_one_state_has_no_more_keys_than_its_limit() {
    let url = sqlite();
    let program = Program::on(&url);
    // The first pages have no key in the other state, so the command asks for larger pages.
    (0..40).for_each(|id| program.pay(id));
    (0..10).for_each(|id| program.leave_unknown("orders.refund", id));
    let args = ["ls", "--state", "unknown", "--limit", "2", "--json"];
    let page = run(&url, &args).json();
    assert_eq!(page["records"].as_array().unwrap().len(), 2, "{page}");
}

#[test]
fn the_keys_of_one_call_are_listed_together() {
    let url = sqlite();
    let programs = [Program::on(&url), Program::on(&url)];
    for (program, from) in programs.iter().zip([1, 3]) {
        let call = program.idempotency.call("accounts.transfer").key(&from);
        let call = call.ttl(Duration::from_mins(5)).release(Release::Always);
        program.begin_call(call.also(&(from + 1)));
    }
    programs[0].pay(7);
    let listed = run(&url, &["ls"]);
    let together = |line: &&str| line.starts_with("Listed keys of one call (`also` ");
    let calls: Vec<_> = listed.err.lines().filter(together).collect();
    assert_eq!(calls.len(), 2, "{}", listed.err);
    for call in calls {
        assert_eq!(call.matches("accounts.transfer ").count(), 2, "{call}");
    }
    let alone = run(&url, &["ls", "--limit", "1", "--endpoint", "accounts.*"]);
    assert!(alone.out.contains("accounts.transfer"), "{}", alone.out);
    assert!(!alone.err.contains("one call"), "{}", alone.err);
    let listed = run(&url, &["ls", "--json"]).json();
    let records = listed["records"].as_array().unwrap();
    let also = |record: &&serde_json::Value| record["also"].is_string();
    assert_eq!(records.iter().filter(also).count(), 4, "{listed}");

    let show = ["show", "accounts.transfer", "--key", "1"];
    let digest = run(&url, &[&show[..], &["--json"]].concat()).json()["also"].clone();
    assert_eq!(
        records.iter().filter(|key| key["also"] == digest).count(),
        2
    );
    let shown = run(&url, &show).ok();
    let expected = format!("also      {}", digest.as_str().unwrap());
    assert!(shown.contains(&expected), "{shown}");
    let release = ["release", "accounts.transfer", "--key", "1", "--force"];
    let released = run(&url, &[&release[..], &["--yes"]].concat()).ok();
    let expected = "runs when all its keys are free, and repeats the work if it was done\n";
    assert!(released.ends_with(expected), "{released}");
}

#[test]
fn a_reader_that_has_read_enough_ends_the_command_quietly() {
    let url = redis();
    let program = Program::on(&url);
    (0..40).for_each(|id| program.pay(id));
    // The pipe is closed before the command writes.
    let mut child = command(&url, &["ls", "--limit", "100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!((status.code(), &*err), (Some(0), ""));
}

#[test]
fn tail_prints_calls_that_begin_and_end() {
    let url = redis();
    let program = Program::on(&url);
    program.pay(1);
    let mut tail = command(&url, &["tail", "--every", "20ms", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    // Its first look may be after the first of these calls.
    let has_ended = AtomicBool::new(false);
    let seen = std::thread::scope(|threads| {
        threads.spawn(|| {
            for id in (2..1000).take_while(|_| !has_ended.load(Ordering::Relaxed)) {
                program.pay(id);
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = tail.kill();
        });
        let is_end = |line: &String| {
            let change: serde_json::Value = serde_json::from_str(line).unwrap();
            (&change["change"], &change["endpoint"]) == (&"done".into(), &"orders.pay".into())
        };
        let seen = lines.map_while(Result::ok).any(|line| is_end(&line));
        has_ended.store(true, Ordering::Relaxed);
        seen
    });
    let _ = tail.wait();
    assert!(seen, "tail ended without a change");
}

#[test]
fn tail_ends_after_its_time_although_the_next_look_is_later() {
    let url = redis();
    let args = ["tail", "--for", "100ms", "--every", "1h"];
    let mut tail = command(&url, &args).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(2);
    while tail.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            tail.kill().unwrap();
            panic!("tail still runs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn keys_with_equal_first_digits_are_both_listed_and_found_by_more_digits() {
    let url = sqlite();
    let one = format!("00000000{}", "1".repeat(24));
    let other = format!("00000000{}", "2".repeat(24));
    for fingerprint in [&one, &other] {
        put_foreign(&url, &format!("idem:orders.pay:{fingerprint}"));
    }
    let listed = run(&url, &["ls", "--json"]).json();
    let listed = listed["records"].as_array().unwrap();
    let fingerprints: BTreeSet<_> = listed
        .iter()
        .map(|row| row["fingerprint"].as_str())
        .collect();
    assert_eq!(fingerprints, BTreeSet::from([Some(&*one), Some(&*other)]));
}

#[test]
fn a_wrong_cursor_is_wrong_usage() {
    for (url, after) in [(redis(), "x"), (sqlite(), "x"), (sqlite(), "tx/idem:")] {
        let ran = run(&url, &["ls", "--after", after]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("`--after` is no cursor"), "{}", ran.err);
    }
}

fn a_key_that_is_no_text_hides_no_other(url: &str, insert: &impl AsyncFn(&str)) {
    let program = Program::on(url);
    (0..4).for_each(|id| program.pay(id));
    program.block_on(async {
        for key in [
            "696465ff",
            "6964656d3a6f72646572732e7061793a38ff",
            "6964656dff",
        ] {
            insert(key).await;
        }
    });
    for limit in ["1", "2", "50"] {
        let mut records = 0;
        let mut after = None::<String>;
        loop {
            let mut args = vec!["ls", "--json", "--limit", limit];
            args.extend(after.iter().flat_map(|after| ["--after", after]));
            let page = run(url, &args).json();
            records += page["records"].as_array().unwrap().len();
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(records, 4, "pages of {limit}");
    }
}

#[test]
fn a_key_that_is_no_text_hides_no_other_on_mariadb() {
    let url = mariadb();
    a_key_that_is_no_text_hides_no_other(&url, &async |key: &str| {
        let pool = sqlx::MySqlPool::connect(&url).await.unwrap();
        let insert = format!(
            "INSERT INTO idempotence VALUES (x'{key}', '', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)"
        );
        let insert = sqlx::raw_sql(sqlx::AssertSqlSafe(insert));
        insert.execute(&pool).await.unwrap();
    });
}

#[test]
fn a_key_that_is_no_text_hides_no_other_on_sqlite() {
    let url = sqlite();
    a_key_that_is_no_text_hides_no_other(&url, &async |key: &str| {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        for key in [format!("CAST(x'{key}' AS TEXT)"), format!("x'{key}'")] {
            let insert = format!("INSERT INTO idempotence VALUES ({key}, x'', 4000000000000000)");
            let insert = sqlx::raw_sql(sqlx::AssertSqlSafe(insert));
            insert.execute(&pool).await.unwrap();
        }
    });
}
