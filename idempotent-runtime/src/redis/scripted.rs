//! A scripted server for unit tests.

use std::collections::VecDeque;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, Pipeline, RedisFuture, Value, parse_redis_value};

/// A server with a script of expected commands and their replies.
#[derive(Default)]
pub(super) struct Scripted(VecDeque<(Vec<&'static [u8]>, Vec<&'static str>)>);

impl Scripted {
    /// Expects one command or pipeline with these parts in this order, and answers with these replies.
    pub(super) fn answers(mut self, sent: &[&'static str], replies: &[&'static str]) -> Self {
        let sent = sent.iter().map(|part| part.as_bytes()).collect();
        self.0.push_back((sent, replies.to_vec()));
        self
    }

    pub(super) fn assert_all_sent(&self) {
        assert!(self.0.is_empty(), "not sent: {:?}", self.0);
    }

    fn next(&mut self, sent: &[u8]) -> Vec<Value> {
        let (parts, replies) = self.0.pop_front().expect("no more commands");
        let mut rest = sent;
        for part in parts {
            let at = rest.windows(part.len()).position(|window| window == part);
            let sent = String::from_utf8_lossy(sent);
            let at = at.unwrap_or_else(|| panic!("{sent:?}: no {part:?}"));
            rest = &rest[at + part.len()..];
        }
        let reply = |reply: &str| parse_redis_value(reply.as_bytes()).expect("a reply");
        replies.into_iter().map(reply).collect()
    }
}

impl ConnectionLike for Scripted {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let reply = self.next(&cmd.get_packed_command()).pop();
        Box::pin(async move { reply.expect("one reply").extract_error() })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let replies = self.next(&pipeline.get_packed_pipeline());
        assert_eq!(replies.len(), count);
        Box::pin(async move { Ok(replies) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}
