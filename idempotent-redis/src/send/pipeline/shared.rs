//! A call of a script that does several operations.

use std::{ptr, vec};

use ::redis::{Cmd, ErrorKind, RedisError, Value};
use idempotent_runtime::port::redis::Answer;

use crate::mutation::mutation;
use crate::script::Script;
use crate::send::op::{Reply, SendError};
use crate::send::request::Request;

/// Several operations of a batch that one call does.
pub(crate) struct SharedCall {
    script: &'static Script,
    parts: usize,
    members: Vec<usize>,
    /// It follows a full call, whose operations come first. A call of one operation is otherwise a command among the others.
    follows: bool,
}

impl SharedCall {
    /// The calls for the operations that can share one, at most [`MOST`] operations for each.
    pub(crate) fn all(batch: &[Request]) -> Vec<Self> {
        let mut calls: Vec<Self> = Vec::new();
        for (member, request) in batch.iter().enumerate() {
            let Some((script, parts)) = request.shape() else {
                continue;
            };
            let mut latest = calls.iter_mut().rev();
            let latest = latest.find(|call| ptr::eq(call.script, script) && call.parts == parts);
            let follows = latest.is_some();
            match latest {
                Some(call) if call.members.len() < MOST => call.members.push(member),
                _ => calls.push(Self {
                    script,
                    parts,
                    members: vec![member],
                    follows,
                }),
            }
        }
        calls.retain(|call| call.members.len() > 1 || call.follows);
        calls
    }

    /// The places of its operations in the batch, in their order.
    pub(crate) fn members(&self) -> impl Iterator<Item = usize> {
        self.members.iter().copied()
    }

    pub(crate) fn command(&self, batch: &[Request]) -> Option<Cmd> {
        let requests = || self.members.iter().map(|member| &batch[*member]);
        let bytes = requests().map(|request| request.size).sum();
        let by_source = requests().any(|request| request.is_by_source);
        let calls = requests().map(|request| &request.command);
        self.script.together(calls, bytes, by_source)
    }
}

/// So many operations of the slowest script take a server a millisecond, in which it does nothing else.
const MOST: usize = 64;

/// The reply to a call of several operations.
pub(crate) enum SharedReply {
    Each(vec::IntoIter<Value>),
    Failed(RedisError),
}

impl SharedReply {
    pub(crate) fn new(reply: Value) -> Self {
        match reply {
            Value::Array(replies) if mutation!(SharesError) && replies.iter().any(is_error) => {
                let mut errors = replies
                    .into_iter()
                    .filter_map(|reply| reply.extract_error().err());
                errors
                    .next()
                    .map_or_else(|| Self::Each(Vec::new().into_iter()), Self::Failed)
            }
            // Its errors are errors of single operations.
            Value::Array(replies) => Self::Each(replies.into_iter()),
            reply => Self::Failed(match reply.extract_error() {
                Err(error) => error,
                Ok(_) => unexpected("a call of several operations has one reply"),
            }),
        }
    }

    /// Whether the server does not accept a script with keys of several nodes.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self, Self::Failed(error) if error.code() == Some("CROSSSLOT"))
    }

    /// The answer to the next operation.
    pub(crate) fn next(&mut self, request: Request) -> Answer<Request, Reply> {
        let reply = match self {
            Self::Each(replies) => replies.next(),
            Self::Failed(error)
                if Script::is_unknown(error)
                    && !request.is_by_source
                    && !mutation!(ForgetsSource) =>
            {
                return Answer::Again(request.by_source());
            }
            // One key may be the reason for all. The script was refused before it ran, so nothing has changed.
            Self::Failed(error) if is_about_keys(error) => {
                return Answer::Again(request.alone());
            }
            Self::Failed(error) => return Answer::Reply(Err(SendError::Redis(error.clone()))),
        };
        let reply = reply.ok_or_else(|| unexpected("an operation has no reply"));
        Answer::Reply(
            reply
                .and_then(Value::extract_error)
                .map_err(SendError::Redis),
        )
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

pub(crate) fn unexpected(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, what))
}
