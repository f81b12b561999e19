//! A batch as a pipeline, and its replies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::vec;

use ::redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use super::super::script::{Script, hash};
use super::request::{Kind, Removal, Request};
use super::unsent::fail;
use crate::batch::Answer;
#[cfg(test)]
use crate::batch::tests::Broken;
use crate::broken::broken;

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
    /// The number of commands before `WAIT`.
    pub(super) commands: usize,
    parts: Vec<Part>,
    /// Whether a script without, and a script with notifications removes keys.
    removes: [bool; 2],
}

/// What is needed of an operation to read its reply and to repeat it.
enum Part {
    Command {
        script: Option<&'static Script>,
        has_notification: bool,
        size: usize,
        digest: Option<u64>,
    },
    Removal(Request, usize),
}

impl Sent {
    /// `singly`: each key is removed by its own script.
    pub(super) fn new(mut batch: Vec<Request>, singly: bool) -> Self {
        if singly {
            batch = batch.into_iter().map(Request::singly).collect();
        }
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
            commands: pipeline.len(),
            pipeline,
            parts,
            removes,
        }
    }

    /// Adds a command whose reply belongs to no operation.
    pub(super) fn and_wait(mut self, wait: Cmd) -> Self {
        self.pipeline.add_command(wait);
        self
    }

    fn check_number(&self, replies: Vec<Value>) -> RedisResult<Vec<Value>> {
        if replies.len() == self.commands {
            Ok(replies)
        } else {
            Err(unexpected("a pipeline has not one reply for each command"))
        }
    }

    /// Returns an answer for each operation. The replies are without the reply to the command that waits.
    ///
    /// Notes in `refuses_many_keys` if the server does not accept a script with keys of several nodes.
    pub(super) fn read(
        self,
        replies: RedisResult<Vec<Value>>,
        refuses_many_keys: &AtomicBool,
    ) -> Vec<Answer<Request, RedisResult<Value>>> {
        let replies = replies.and_then(|replies| self.check_number(replies));
        let mut replies = match replies {
            Ok(replies) => replies,
            Err(error) => return fail(self.parts.len(), &error),
        };
        let mut removed = [Removed::Nothing, Removed::Nothing];
        for group in [1, 0] {
            if self.removes[group] {
                removed[group] = replies.pop().map_or(Removed::Nothing, Removed::of);
            }
        }
        if removed.iter().any(Removed::is_split) {
            refuses_many_keys.store(true, Ordering::Relaxed);
        }
        if broken!(Broken::ShiftsReplies) && !replies.is_empty() {
            replies.rotate_left(1);
        }
        let mut replies = replies.into_iter();
        let mut commands = self.pipeline.cmd_iter();
        let answer = |part| match part {
            Part::Removal(request, group) => removed[group].next(request),
            Part::Command {
                script,
                has_notification,
                size,
                digest,
            } => {
                let (call, reply) = (commands.next(), replies.next());
                let reply = reply.ok_or_else(|| unexpected("a command has no reply"));
                let reply = reply.and_then(Value::extract_error);
                if has_notification {
                    commands.next();
                    if !broken!(Broken::ReadsNotification) {
                        replies.next();
                    }
                }
                match (script, reply, call) {
                    (Some(script), Err(error), Some(call)) if Script::is_unknown(&error) => {
                        let again = script.again_by_source(call);
                        Answer::Again(Request {
                            digest,
                            ..Request::command(again, size, digest)
                        })
                    }
                    (_, reply, _) => Answer::Reply(reply),
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
            Value::Array(replies)
                if broken!(Broken::SharesError) && replies.iter().any(is_error) =>
            {
                let error = replies
                    .into_iter()
                    .find_map(|reply| reply.extract_error().err());
                error.map_or(Self::Nothing, Self::Failed)
            }
            // Its errors are errors of single keys.
            Value::Array(replies) => Self::Each(replies.into_iter()),
            reply => match reply.extract_error() {
                Err(error) => Self::Failed(error),
                Ok(_) => Self::Nothing,
            },
        }
    }

    /// Whether the server does not accept a script with keys of several nodes.
    fn is_split(&self) -> bool {
        matches!(self, Self::Failed(error) if error.code() == Some("CROSSSLOT"))
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
                    && !broken!(Broken::ForgetsSource)
                {
                    removal.by_source = true;
                    return Answer::Again(request);
                }
                // One key may be the reason for all. The script was refused before it ran, so nothing was removed.
                if is_about_keys(error) {
                    return Answer::Again(request.singly());
                }
                return Answer::Reply(Err(error.clone()));
            }
        };
        let reply = reply.ok_or_else(|| unexpected("a removal has no reply"));
        Answer::Reply(reply.and_then(Value::extract_error))
    }
}

/// Whether a server refused a script because of its keys: they are on several nodes, or on another node, or the user may not use
/// one of them.
fn is_about_keys(error: &RedisError) -> bool {
    let code = error.code();
    ["CROSSSLOT", "NOPERM", "MOVED", "ASK", "TRYAGAIN"]
        .map(Some)
        .contains(&code)
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}

fn unexpected(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, what))
}

#[cfg(test)]
mod tests;
