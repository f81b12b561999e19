//! Lists of keys.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Program, command, redis, run, sqlite};

fn pages_have_every_key_once(url: &str) {
    let program = Program::on(url);
    (0..60).for_each(|id| program.pay(id));
    let (mut digits, mut after, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let mut args = vec!["ls", "--limit", "20", "--json"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let page = run(url, &args).json();
        for record in page["records"].as_array().unwrap() {
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
    pages_have_every_key_once(&redis());
}

#[test]
fn pages_have_every_key_once_on_sqlite() {
    pages_have_every_key_once(&sqlite());
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
                std::thread::sleep(std::time::Duration::from_millis(100));
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
