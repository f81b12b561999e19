//! Which replies belong to which operations of a pipeline.

use ::redis::ErrorKind;

use super::*;
use crate::mutation::Mutation;
use crate::mutation::assert_kept;
use crate::record::scripts::{CLAIM, REMOVE, REMOVE_AND_NOTIFY};
use crate::script::scripted::Scripted;
use crate::send::op::Op;

fn request(op: &Op<'_>, digest: u64) -> Request {
    Request::new(op, Some(digest), true)
}

fn removal(key: &str, notifies: bool) -> Request {
    let script = if notifies {
        &REMOVE_AND_NOTIFY
    } else {
        &REMOVE
    };
    request(&Op::script(script, &[key], &[b"own"]), 1)
}

fn claim(key: &str) -> Request {
    request(&Op::script(&CLAIM, &[key], &[b"own", b"9", b"-1"]), 1)
}

async fn send(server: Scripted, batch: Vec<Request>) -> Vec<Answer<Request, Reply>> {
    send_to(server, batch, &AtomicBool::new(false)).await
}

async fn send_to(
    mut server: Scripted,
    batch: Vec<Request>,
    refuses_many_keys: &AtomicBool,
) -> Vec<Answer<Request, Reply>> {
    let sent = Sent::new(batch, refuses_many_keys.load(Ordering::Relaxed));
    let replies = ::redis::aio::ConnectionLike::req_packed_commands(
        &mut server,
        &sent.pipeline,
        0,
        sent.pipeline.len(),
    );
    let replies = replies.await;
    server.assert_all_sent();
    sent.read(replies, refuses_many_keys)
}

fn reply(answer: &Answer<Request, Reply>) -> Result<Value, String> {
    match answer {
        Answer::Reply(Ok(reply)) => Ok(reply.clone()),
        Answer::Reply(Err(SendError::Redis(error))) => Err(error.code().unwrap().to_owned()),
        Answer::Reply(Err(SendError::Store(error))) => Err(error.to_string()),
        Answer::Again(_) => Err("again".to_owned()),
    }
}

#[test]
fn each_operation_gets_its_own_reply() {
    assert_kept(own_replies, Mutation::ShiftsReplies);
    assert_kept(own_replies, Mutation::SharesError);
    assert_kept(own_replies, Mutation::ReadsNotification);
}

async fn own_replies() -> bool {
    let (keys, args): ([&str; 1], [&[u8]; 2]) = (["d"], [b"IFEQ", b"own"]);
    let delex = Op::command("DELEX", &keys, &args).and_notify(true);
    let batch = vec![
        removal("a", false),
        claim("b"),
        removal("c", true),
        request(&delex, 2),
        removal("e", false),
        claim("f"),
        removal("g", true),
    ];
    let sent = [
        "b", "DELEX", "PUBLISH", "f", "EVALSHA", "a", "e", "own", "own", "EVALSHA", "c", "g",
    ];
    let server = Scripted::default().answers(
        &sent,
        &[
            ":1\r\n",
            ":0\r\n",
            "-NOPERM no channel\r\n",
            "-OOM full\r\n",
            "*2\r\n:1\r\n-WRONGTYPE a list\r\n",
            "*2\r\n$-1\r\n$5\r\nother\r\n",
        ],
    );
    let answers = send(server, batch).await;
    let replies: Vec<_> = answers.iter().map(reply).collect();
    let expected = [
        Ok(Value::Int(1)),
        Ok(Value::Int(1)),
        Ok(Value::Nil),
        Ok(Value::Int(0)),
        Err("WRONGTYPE".to_owned()),
        Err("OOM".to_owned()),
        Ok(Value::BulkString(b"other".to_vec())),
    ];
    replies == expected
}

#[test]
fn only_operations_of_an_unknown_script_go_again_by_source() {
    assert_kept(again_by_source, Mutation::ForgetsSource);
}

async fn again_by_source() -> bool {
    let batch = vec![
        removal("a", false),
        claim("b"),
        removal("c", true),
        claim("d"),
        removal("e", false),
    ];
    let unknown = "-NOSCRIPT No matching script.\r\n";
    let replies = [":1\r\n", ":1\r\n", unknown, unknown];
    let sent = ["b", "c", "d", "a", "e"];
    let server = Scripted::default().answers(&sent, &replies);
    let answers = send(server, batch).await;
    assert_eq!(reply(&answers[1]), Ok(Value::Int(1)));
    assert_eq!(reply(&answers[2]), Ok(Value::Int(1)));
    let again = answers.into_iter().filter_map(|answer| match answer {
        Answer::Again(request) => Some(request),
        Answer::Reply(_) => None,
    });
    let again: Vec<_> = again.collect();
    assert!(again.iter().all(|request| request.digest() == Some(1)));
    if again.len() != 3 {
        return false;
    }
    let sent = [
        "EVAL\r\n",
        "'SET'",
        "\r\nd\r\n",
        "own",
        "-1",
        "EVAL\r\n",
        "'DEL'",
        "\r\na\r\n",
        "\r\ne\r\n",
        "own",
        "own",
    ];
    let server = Scripted::default().answers(&sent, &[":1\r\n", "*2\r\n$-1\r\n:1\r\n"]);
    let answers = send(server, again).await;
    let replies: Vec<_> = answers.iter().map(reply).collect();
    replies == [Ok(Value::Nil), Ok(Value::Int(1)), Ok(Value::Int(1))]
}

#[tokio::test]
async fn operations_go_again_singly_if_the_server_refuses_their_keys_together() {
    for (refusal, is_split) in [
        (
            "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
            true,
        ),
        ("-NOPERM No permissions to access a key\r\n", false),
    ] {
        let refuses_many_keys = AtomicBool::new(false);
        let batch = || vec![removal("a", false), claim("b"), removal("c", false)];
        let server = Scripted::default().answers(&["b", "a", "c"], &[":1\r\n", refusal]);
        let answers = send_to(server, batch(), &refuses_many_keys).await;
        assert_eq!(reply(&answers[1]), Ok(Value::Int(1)));
        let again = answers.into_iter().filter_map(|answer| match answer {
            Answer::Again(request) => Some(request),
            Answer::Reply(_) => None,
        });
        let again: Vec<_> = again.collect();
        assert!(again.iter().all(|request| request.digest() == Some(1)));

        let singly = ["EVALSHA", "a", "own", "EVALSHA", "c", "own"];
        let replies = [":1\r\n", "-NOPERM No permissions to access a key\r\n"];
        let server = Scripted::default().answers(&singly, &replies);
        let answers = send_to(server, again, &refuses_many_keys).await;
        let replies: Vec<_> = answers.iter().map(reply).collect();
        assert_eq!(replies, [Ok(Value::Int(1)), Err("NOPERM".to_owned())]);

        // Later removals go singly at once if the keys are on several nodes.
        assert_eq!(refuses_many_keys.load(Ordering::Relaxed), is_split);
        let (sent, replies): (&[_], &[_]) = if is_split {
            (
                &["EVALSHA", "a", "EVALSHA", "b", "EVALSHA", "c"],
                &[":1\r\n"; 3],
            )
        } else {
            (&["b", "a", "c"], &[":1\r\n", "*2\r\n:1\r\n:1\r\n"])
        };
        let server = Scripted::default().answers(sent, replies);
        let answers = send_to(server, batch(), &refuses_many_keys).await;
        assert!(
            answers
                .iter()
                .all(|answer| reply(answer) == Ok(Value::Int(1)))
        );
    }
}

#[tokio::test]
async fn missing_replies_are_errors() {
    let batch = vec![removal("a", false), removal("b", false)];
    let server = Scripted::default().answers(&["a", "b"], &["*1\r\n:1\r\n"]);
    let answers = send(server, batch).await;
    assert_eq!(reply(&answers[0]), Ok(Value::Int(1)));
    let Answer::Reply(Err(SendError::Redis(error))) = &answers[1] else {
        panic!("a removal without a reply has failed");
    };
    assert_eq!(error.kind(), ErrorKind::UnexpectedReturnType);
}

#[tokio::test]
async fn a_call_has_operations_of_one_script_and_not_too_many() {
    let batch = vec![
        removal("a", false),
        removal("b", true),
        removal("c", false),
        removal("d", true),
        removal("e", false),
    ];
    let sent = [
        "EVALSHA",
        "\r\n3\r\n",
        "\r\na\r\n",
        "\r\nc\r\n",
        "\r\ne\r\n",
        "own",
        "EVALSHA",
        "\r\n2\r\n",
        "\r\nb\r\n",
        "\r\nd\r\n",
        "own",
        "own",
    ];
    let replies = ["*3\r\n:1\r\n$-1\r\n:0\r\n", "*2\r\n:1\r\n:0\r\n"];
    let server = Scripted::default().answers(&sent, &replies);
    let answers = send(server, batch).await;
    let replies: Vec<_> = answers
        .iter()
        .map(|answer| reply(answer).unwrap())
        .collect();
    let [one, none, long] = [Value::Int(1), Value::Nil, Value::Int(0)];
    assert_eq!(replies, [one.clone(), one, none, long.clone(), long]);

    let batch: Vec<_> = (0..129).map(|at| removal(&at.to_string(), false)).collect();
    let calls = Sent::new(batch, false).pipeline;
    let keys: Vec<_> = calls
        .cmd_iter()
        .map(|call| match call.args_iter().nth(2) {
            Some(::redis::Arg::Simple(number)) => str::from_utf8(number).unwrap(),
            _ => panic!("a call has keys"),
        })
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(keys, ["64", "64", "1"]);
}
