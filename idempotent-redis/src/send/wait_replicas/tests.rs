//! Which writes the replicas have acknowledged: alone, and in a batch.

use std::error::Error as _;
use std::time::Duration;

use super::*;
use crate::mutation::Mutation;
use crate::mutation::assert_kept;
use crate::record::scripts::{CLAIM_REPLICATED, REPLACE_REPLICATED};
use crate::script::scripted::Scripted;

const TWO: Replicas = Replicas {
    wanted: 2,
    timeout: Duration::from_millis(70),
};

fn request(op: &Op<'_>, digest: u64) -> Request {
    Request::new(op, Some(digest), true)
}

fn batch() -> Vec<Request> {
    let claim = |key| {
        request(
            &Op::script(&CLAIM_REPLICATED, &[key], &[b"own", b"9", b"-1"]),
            1,
        )
    };
    let args: [&[u8]; 5] = [b"own", b"done", b"9", b"", b"-1"];
    let replace = request(&Op::script(&REPLACE_REPLICATED, &["b"], &args), 2);
    vec![claim("a"), replace, claim("c"), claim("d")]
}

fn on(server: &Scripted) -> WaitReplicas<Scripted> {
    WaitReplicas::new(server.clone(), TWO)
}

/// The reply; the code of an error; or nothing if the operation goes again.
fn read(answer: &Answer<Request, Reply>) -> Option<Result<Value, String>> {
    match answer {
        Answer::Again(_) => None,
        Answer::Reply(Ok(reply)) => Some(Ok(reply.clone())),
        Answer::Reply(Err(error)) => Some(Err(text(error))),
    }
}

fn text(error: &SendError) -> String {
    match error {
        SendError::Redis(error) => error.code().unwrap_or_default().to_owned(),
        SendError::Store(error) => error.source().expect("a cause").to_string(),
    }
}

fn few(have: u32) -> Result<Value, String> {
    Err(format!("{have} of 2 replicas have it after 70ms"))
}

fn not_known() -> Result<Value, String> {
    Err("it is not known how many replicas have it".to_owned())
}

const SENT: [&str; 13] = [
    "EVALSHA", "a", "own", "EVALSHA", "b", "done", "EVALSHA", "c", "EVALSHA", "d", "WAIT", "2",
    "70",
];

#[test]
fn a_batch_waits_for_its_replicas_once() {
    let rule = || async {
        let mut is_kept = true;
        for (have, expected) in [
            (":2\r\n", Ok(Value::Int(1))),
            (":1\r\n", few(1)),
            ("-UNBLOCKED\r\n", not_known()),
        ] {
            let replies = [":1\r\n", "$-1\r\n", "-WRONGTYPE a list\r\n", ":1\r\n", have];
            let server = if mutation!(AcknowledgesAtOnce) {
                Scripted::default().answers(&SENT[..10], &replies[..4])
            } else {
                Scripted::default().answers(&SENT, &replies)
            };
            let answers = on(&server).send(batch()).await;
            server.assert_all_sent();
            let answers: Vec<_> = answers.iter().map(read).collect();
            is_kept &= answers
                == [
                    Some(expected.clone()),
                    Some(Ok(Value::Nil)),
                    Some(Err("WRONGTYPE".to_owned())),
                    Some(expected),
                ];
        }
        is_kept
    };
    assert_kept(rule, Mutation::AcknowledgesAtOnce);
}

#[tokio::test]
async fn a_script_that_goes_again_needs_the_next_wait() {
    let unknown = "-NOSCRIPT No matching script.\r\n";
    let replies = [":1\r\n", unknown, ":1\r\n", unknown, ":2\r\n"];
    let server = Scripted::default().answers(&SENT, &replies).answers(
        &["EVAL", "b", "EVAL", "d", "WAIT"],
        &[":1\r\n", ":1\r\n", ":0\r\n"],
    );
    let answers = on(&server).send(batch()).await;
    let read_all = |answers: &ReplicaAnswers| answers.iter().map(read).collect::<Vec<_>>();
    let done = || Some(Ok(Value::Int(1)));
    assert_eq!(read_all(&answers), [done(), None, done(), None]);
    let again = answers.into_iter().filter_map(|answer| match answer {
        Answer::Again(request) => Some(request),
        Answer::Reply(_) => None,
    });
    let answers = on(&server).send(again.collect()).await;
    server.assert_all_sent();
    assert_eq!(read_all(&answers), [Some(few(0)), Some(few(0))]);
}

const BY_HASH: [&str; 6] = ["EVALSHA", "key", "own", "WAIT", "2", "70"];
const BY_SOURCE: [&str; 7] = ["EVAL", "redis.call", "key", "own", "WAIT", "2", "70"];

async fn run(server: Scripted) -> Result<Value, String> {
    let args = [&b"own"[..], b"1000"];
    let claim = Op::script(&CLAIM_REPLICATED, &["key"], &args);
    let reply = on(&server).run(&claim).await;
    server.assert_all_sent();
    reply.map_err(|error| text(&error))
}

#[tokio::test]
async fn the_write_and_its_wait_are_one_pipeline() {
    for (have, expected) in [
        (":3\r\n", Ok(Value::Int(1))),
        (":2\r\n", Ok(Value::Int(1))),
        (":1\r\n", few(1)),
        (":0\r\n", few(0)),
        (
            "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
            not_known(),
        ),
    ] {
        let server = Scripted::default().answers(&BY_HASH, &[":1\r\n", have]);
        assert_eq!(run(server).await, expected);
    }
}

#[tokio::test]
async fn a_reply_that_nothing_was_written_needs_no_replicas() {
    let server = Scripted::default().answers(&BY_HASH, &["$5\r\nother\r\n", ":0\r\n"]);
    let other = Value::BulkString(b"other".to_vec());
    assert_eq!(run(server).await, Ok(other));
}

#[tokio::test]
async fn a_script_that_is_sent_again_has_its_own_wait() {
    let no_script = "-NOSCRIPT No matching script.\r\n";
    let server = Scripted::default()
        .answers(&BY_HASH, &[no_script, ":2\r\n"])
        .answers(&BY_SOURCE, &[":1\r\n", ":0\r\n"]);
    assert_eq!(run(server).await, few(0), "the first wait does not count");
}

#[tokio::test]
async fn a_refusal_of_the_script_is_the_error() {
    let server = Scripted::default().answers(&BY_HASH, &["-READONLY a replica\r\n", ":0\r\n"]);
    assert_eq!(run(server).await, Err("READONLY".to_owned()));
}
