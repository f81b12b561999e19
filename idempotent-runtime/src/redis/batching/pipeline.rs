//! A batch as a pipeline, and its replies.

use std::vec;

use ::redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use super::super::script::{Script, hash};
use super::request::{Kind, Removal, Request};
use crate::batch::Answer;

/// Removes each key that has the value at the same place of the arguments. Returns an answer for each key, in their order: `1`
/// if the value is removed, nil if nothing is stored, else the stored value, or `0` if that is long. An error of one key is its
/// answer.
static REMOVE_EACH: Script = Script::new(
    "local call, answers = redis.pcall, {}
for at, key in ipairs(KEYS) do
  local stored = call('GET', key)
  if stored == ARGV[at] then
    local removed = call('DEL', key)
    stored = type(removed) == 'table' and removed or 1
  elseif type(stored) == 'string' and #stored > 4096 then
    stored = 0
  end
  answers[at] = stored
end
return answers",
    || hash(&REMOVE_EACH),
);

/// [`REMOVE_EACH`], with a notification on the channel of each removed key, which has the name of the key.
static REMOVE_EACH_AND_NOTIFY: Script = Script::new(
    "local call, answers = redis.pcall, {}
for at, key in ipairs(KEYS) do
  local stored = call('GET', key)
  if stored == ARGV[at] then
    local removed = call('DEL', key)
    if type(removed) == 'table' then
      stored = removed
    else
      stored = 1
      call('PUBLISH', key, '')
    end
  elseif type(stored) == 'string' and #stored > 4096 then
    stored = 0
  end
  answers[at] = stored
end
return answers",
    || hash(&REMOVE_EACH_AND_NOTIFY),
);

/// A batch as a pipeline: the commands in the order of the operations, then the scripts that remove.
pub(super) struct Sent {
    pub(super) pipeline: Pipeline,
    parts: Vec<Part>,
    /// Whether a script without, and a script with notifications removes keys.
    removes: [bool; 2],
}

/// What is needed of an operation to read its reply and to repeat it.
enum Part {
    Command {
        /// The place of the command in the pipeline.
        at: usize,
        script: Option<&'static Script>,
        has_notification: bool,
        size: usize,
        digest: Option<u64>,
    },
    Removal(Request, usize),
}

impl Sent {
    pub(super) fn new(batch: Vec<Request>) -> Self {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let mut removals = [Removals::default(), Removals::default()];
        for request in &batch {
            if let Kind::Removal(removal) = &request.kind {
                removals[usize::from(removal.notifies)].add(removal);
            }
        }
        let calls = removals.map(Removals::call);
        let mut parts = Vec::with_capacity(batch.len());
        for request in batch {
            let (size, digest) = (request.size, request.digest);
            let call = match request.kind {
                Kind::Command(call) => call,
                Kind::Removal(removal) => {
                    let group = usize::from(removal.notifies);
                    let kind = Kind::Removal(removal);
                    parts.push(Part::Removal(Request { kind, size, digest }, group));
                    continue;
                }
            };
            parts.push(Part::Command {
                at: pipeline.len(),
                script: call.script,
                has_notification: call.notification.is_some(),
                size,
                digest,
            });
            pipeline.add_command(call.command);
            if let Some(notification) = call.notification {
                pipeline.add_command(*notification);
            }
        }
        let removes = [calls[0].is_some(), calls[1].is_some()];
        for call in calls.into_iter().flatten() {
            pipeline.add_command(call);
        }
        Self {
            pipeline,
            parts,
            removes,
        }
    }

    pub(super) fn read(
        self,
        replies: RedisResult<Vec<Value>>,
    ) -> Vec<Answer<Request, RedisResult<Value>>> {
        let replies = replies.and_then(|replies| {
            if replies.len() == self.pipeline.len() {
                Ok(replies)
            } else {
                Err(unexpected("a pipeline has not one reply for each command"))
            }
        });
        let mut replies = match replies {
            Ok(replies) => replies,
            Err(error) => {
                let failed = |_| Answer::Reply(Err(error.clone()));
                return self.parts.into_iter().map(failed).collect();
            }
        };
        let mut removed = [Removed::Nothing, Removed::Nothing];
        for group in [1, 0] {
            if self.removes[group] {
                removed[group] = replies.pop().map_or(Removed::Nothing, Removed::of);
            }
        }
        let mut replies = replies.into_iter();
        let pipeline = &self.pipeline;
        let answer = |part| match part {
            Part::Removal(request, group) => removed[group].next(request),
            Part::Command {
                at,
                script,
                has_notification,
                size,
                digest,
            } => {
                let reply = replies.next().unwrap_or(Value::Nil).extract_error();
                if has_notification {
                    replies.next();
                }
                match (script, reply) {
                    (Some(script), Err(error)) if Script::is_unknown(&error) => {
                        let call = pipeline.cmd_iter().nth(at);
                        let Some(again) = call.map(|call| script.again_by_source(call)) else {
                            return Answer::Reply(Err(error));
                        };
                        Answer::Again(Request {
                            digest,
                            ..Request::command(again, size, digest)
                        })
                    }
                    (_, reply) => Answer::Reply(reply),
                }
            }
        };
        self.parts.into_iter().map(answer).collect()
    }
}

/// The removals that one script does.
#[derive(Default)]
struct Removals<'a> {
    keys: Vec<&'a str>,
    expected: Vec<&'a [u8]>,
    notifies: bool,
    by_source: bool,
}

impl<'a> Removals<'a> {
    fn add(&mut self, removal: &'a Removal) {
        self.keys.push(&removal.key);
        self.expected.push(&removal.expected);
        self.notifies = removal.notifies;
        self.by_source |= removal.by_source;
    }

    fn call(self) -> Option<Cmd> {
        if self.keys.is_empty() {
            return None;
        }
        let script = if self.notifies {
            &REMOVE_EACH_AND_NOTIFY
        } else {
            &REMOVE_EACH
        };
        Some(if self.by_source {
            script.by_source(&self.keys, &self.expected)
        } else {
            script.by_hash(&self.keys, &self.expected)
        })
    }
}

/// The reply of a script that removes keys.
enum Removed {
    Nothing,
    Each(vec::IntoIter<Value>),
    Failed(RedisError),
}

impl Removed {
    fn of(reply: Value) -> Self {
        match reply {
            // Its errors are errors of single keys.
            Value::Array(replies) => Self::Each(replies.into_iter()),
            reply => match reply.extract_error() {
                Err(error) => Self::Failed(error),
                Ok(_) => Self::Nothing,
            },
        }
    }

    /// The answer to the next removal.
    fn next(&mut self, mut request: Request) -> Answer<Request, RedisResult<Value>> {
        let reply = match self {
            Self::Each(replies) => replies.next(),
            Self::Nothing => None,
            Self::Failed(error) => {
                if let Kind::Removal(removal) = &mut request.kind
                    && Script::is_unknown(error)
                    && !removal.by_source
                {
                    removal.by_source = true;
                    return Answer::Again(request);
                }
                return Answer::Reply(Err(error.clone()));
            }
        };
        let reply = reply.ok_or_else(|| unexpected("a removal has no reply"));
        Answer::Reply(reply.and_then(Value::extract_error))
    }
}

fn unexpected(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, what))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::super::record_scripts::CLAIM;
    use super::super::super::scripted::Scripted;
    use super::*;
    use crate::batch::Operation as _;

    fn removal(key: &str, notifies: bool) -> Request {
        Request::removal(key, &Bytes::from_static(b"own"), notifies, 1)
    }

    fn claim(key: &str) -> Request {
        Request::script(&CLAIM, &[key], &[b"own", b"9", b"-1"], Some(1))
    }

    async fn send(
        server: Scripted,
        batch: Vec<Request>,
    ) -> Vec<Answer<Request, RedisResult<Value>>> {
        let mut server = server;
        let sent = Sent::new(batch);
        let replies = ::redis::aio::ConnectionLike::req_packed_commands(
            &mut server,
            &sent.pipeline,
            0,
            sent.pipeline.len(),
        );
        let replies = replies.await;
        server.assert_all_sent();
        sent.read(replies)
    }

    fn reply(answer: &Answer<Request, RedisResult<Value>>) -> Result<Value, String> {
        match answer {
            Answer::Reply(reply) => reply.clone().map_err(|error| error.code().unwrap().into()),
            Answer::Again(_) => Err("again".to_owned()),
        }
    }

    #[tokio::test]
    async fn each_operation_gets_its_own_reply() {
        let mut delex = ::redis::cmd("DELEX");
        delex.arg("d");
        let mut publish = ::redis::cmd("PUBLISH");
        publish.arg("d").arg("");
        let batch = vec![
            removal("a", false),
            claim("b"),
            removal("c", true),
            Request::command(delex, 1, Some(2)).and_notify(publish),
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
        assert_eq!(replies, expected);
    }

    #[tokio::test]
    async fn only_operations_of_an_unknown_script_go_again_by_source() {
        let batch = vec![
            removal("a", false),
            claim("b"),
            removal("c", true),
            claim("d"),
        ];
        let unknown = "-NOSCRIPT No matching script.\r\n";
        let replies = [":1\r\n", unknown, unknown, "*1\r\n:1\r\n"];
        let server = Scripted::default().answers(&["b", "d", "a", "c"], &replies);
        let answers = send(server, batch).await;
        assert_eq!(reply(&answers[1]), Ok(Value::Int(1)));
        assert_eq!(reply(&answers[2]), Ok(Value::Int(1)));
        let again = answers.into_iter().filter_map(|answer| match answer {
            Answer::Again(request) => Some(request),
            Answer::Reply(_) => None,
        });
        let again: Vec<_> = again.collect();
        assert!(again.iter().all(|request| request.digest() == Some(1)));
        let sent = [
            "EVAL\r\n",
            "redis.call",
            "d",
            "own",
            "-1",
            "EVAL\r\n",
            "redis.pcall",
            "a",
            "own",
        ];
        let server = Scripted::default().answers(&sent, &[":1\r\n", "*1\r\n$-1\r\n"]);
        let answers = send(server, again).await;
        let replies: Vec<_> = answers.iter().map(reply).collect();
        assert_eq!(replies, [Ok(Value::Nil), Ok(Value::Int(1))]);
    }

    #[tokio::test]
    async fn missing_replies_are_errors() {
        let batch = vec![removal("a", false), removal("b", false)];
        let server = Scripted::default().answers(&["a", "b"], &["*1\r\n:1\r\n"]);
        let answers = send(server, batch).await;
        assert_eq!(reply(&answers[0]), Ok(Value::Int(1)));
        let Answer::Reply(Err(error)) = &answers[1] else {
            panic!("a removal without a reply has failed");
        };
        assert_eq!(error.kind(), ErrorKind::UnexpectedReturnType);
    }
}
