//! Which writes of a batch the replicas have acknowledged.

use std::time::Duration;

use super::*;
use crate::batch::tests::assert_kept;
use crate::redis::record::scripts::{CLAIM_REPLICATED, REPLACE_REPLICATED};
use crate::redis::script::scripted::Scripted;

const TWO: Replicas = Replicas {
    wanted: 2,
    timeout: Duration::from_millis(70),
};

fn batch() -> Vec<Request> {
    let claim = |key| Request::script(&CLAIM_REPLICATED, &[key], &[b"own", b"9", b"-1"], Some(1));
    let args: [&[u8]; 5] = [b"own", b"done", b"9", b"", b"-1"];
    let replace = Request::script(&REPLACE_REPLICATED, &["b"], &args, Some(2));
    vec![claim("a"), replace, claim("c"), claim("d")]
}

async fn send(server: &Scripted, batch: Vec<Request>) -> Answers {
    let transport = WaitingPipelines {
        connection: server.clone(),
        wait_connections: None,
        replicas: TWO,
    };
    transport.send(batch).await
}

/// The reply and whether it counts as acknowledged; the code of an error; or nothing if the operation goes again.
fn read(
    answer: &Answer<Request, RedisResult<Acknowledged>>,
) -> Option<Result<(Value, bool), String>> {
    match answer {
        Answer::Again(_) => None,
        Answer::Reply(Ok((reply, enough))) => Some(Ok((reply.clone(), enough.is_ok()))),
        Answer::Reply(Err(error)) => Some(Err(error.code().unwrap_or_default().to_owned())),
    }
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
            (":2\r\n", true),
            (":1\r\n", false),
            ("-UNBLOCKED\r\n", false),
        ] {
            let replies = [":1\r\n", "$-1\r\n", "-WRONGTYPE a list\r\n", ":1\r\n", have];
            let server = if broken!(Broken::AcknowledgesAtOnce) {
                Scripted::default().answers(&SENT[..10], &replies[..4])
            } else {
                Scripted::default().answers(&SENT, &replies)
            };
            let answers = send(&server, batch()).await;
            server.assert_all_sent();
            let answers: Vec<_> = answers.iter().map(read).collect();
            is_kept &= answers
                == [
                    Some(Ok((Value::Int(1), expected))),
                    Some(Ok((Value::Nil, expected))),
                    Some(Err("WRONGTYPE".to_owned())),
                    Some(Ok((Value::Int(1), expected))),
                ];
        }
        is_kept
    };
    assert_kept(rule, Broken::AcknowledgesAtOnce);
}

#[tokio::test]
async fn a_script_that_goes_again_needs_the_next_wait() {
    let unknown = "-NOSCRIPT No matching script.\r\n";
    let replies = [":1\r\n", unknown, ":1\r\n", unknown, ":2\r\n"];
    let server = Scripted::default().answers(&SENT, &replies).answers(
        &["EVAL", "b", "EVAL", "d", "WAIT"],
        &[":1\r\n", ":1\r\n", ":0\r\n"],
    );
    let answers = send(&server, batch()).await;
    let read_all = |answers: &Answers| answers.iter().map(read).collect::<Vec<_>>();
    let done = |acknowledged| Some(Ok((Value::Int(1), acknowledged)));
    assert_eq!(read_all(&answers), [done(true), None, done(true), None]);
    let again = answers.into_iter().filter_map(|answer| match answer {
        Answer::Again(request) => Some(request),
        Answer::Reply(_) => None,
    });
    let answers = send(&server, again.collect()).await;
    server.assert_all_sent();
    assert_eq!(read_all(&answers), [done(false), done(false)]);
}
