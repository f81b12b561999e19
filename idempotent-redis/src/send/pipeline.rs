//! A batch as a pipeline, and its replies.

mod shared;

use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::{Cmd, Pipeline, RedisResult, Value};
use idempotent_runtime::port::redis::{Answer, Operation as _};

use self::shared::{SharedCall, SharedReply, unexpected};
use crate::mutation::mutation;
use crate::script::Script;
use crate::send::op::{Reply, SendError};
use crate::send::request::Request;
use crate::send::unsent::fail;

/// A batch as a pipeline: the commands in the order of the operations, then the calls that do several operations.
pub(crate) struct Sent {
    pub(crate) pipeline: Pipeline,
    /// The number of commands before `WAIT`.
    pub(crate) commands: usize,
    parts: Vec<PipelinePart>,
    /// The number of calls that do several operations.
    shared: usize,
}

/// What is needed of an operation to read its reply and to repeat it.
enum PipelinePart {
    Command {
        script: Option<&'static Script>,
        has_notification: bool,
        size: usize,
        digest: Option<u64>,
    },
    /// The operation is one of this shared call.
    Shared(Request, usize),
}

impl Sent {
    /// `singly`: each operation has its own call.
    pub(crate) fn new(batch: Vec<Request>, singly: bool) -> Self {
        let calls = if singly {
            Vec::new()
        } else {
            SharedCall::all(&batch)
        };
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let together: Vec<_> = calls
            .iter()
            .filter_map(|call| call.command(&batch))
            .collect();
        let mut place = vec![None; batch.len()];
        for (number, call) in calls.iter().enumerate() {
            call.members()
                .for_each(|member| place[member] = Some(number));
        }
        let mut parts = Vec::with_capacity(batch.len());
        for (request, call) in batch.into_iter().zip(place) {
            if let Some(call) = call {
                parts.push(PipelinePart::Shared(request, call));
                continue;
            }
            parts.push(PipelinePart::Command {
                script: request.script,
                has_notification: request.notification.is_some(),
                size: request.size,
                digest: request.digest(),
            });
            pipeline.add_command(request.command);
            if let Some(notification) = request.notification {
                pipeline.add_command(*notification);
            }
        }
        for call in together {
            pipeline.add_command(call);
        }
        Self {
            commands: pipeline.len(),
            pipeline,
            parts,
            shared: calls.len(),
        }
    }

    /// Adds a command whose reply belongs to no operation.
    pub(crate) fn and_wait(mut self, wait: Cmd) -> Self {
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
    pub(crate) fn read(
        self,
        replies: RedisResult<Vec<Value>>,
        refuses_many_keys: &AtomicBool,
    ) -> Vec<Answer<Request, Reply>> {
        let replies = replies.and_then(|replies| self.check_number(replies));
        let mut replies = match replies {
            Ok(replies) => replies,
            Err(error) => return fail(self.parts.len(), &error),
        };
        let shared = replies.split_off(replies.len() - self.shared);
        let mut shared: Vec<_> = shared.into_iter().map(SharedReply::new).collect();
        if shared.iter().any(SharedReply::is_split) {
            refuses_many_keys.store(true, Ordering::Relaxed);
        }
        if mutation!(ShiftsReplies) && !replies.is_empty() {
            replies.rotate_left(1);
        }
        let mut replies = replies.into_iter();
        let mut commands = self.pipeline.cmd_iter();
        let answer = |part| match part {
            PipelinePart::Shared(request, call) => shared[call].next(request),
            PipelinePart::Command {
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
                    if !mutation!(ReadsNotification) {
                        replies.next();
                    }
                }
                match (script, reply, call) {
                    (Some(script), Err(error), Some(call)) if Script::is_unknown(&error) => {
                        let again = script.again_by_source(call);
                        Answer::Again(Request::command(again, size, digest))
                    }
                    (_, reply, _) => Answer::Reply(reply.map_err(SendError::Redis)),
                }
            }
        };
        self.parts.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests;
