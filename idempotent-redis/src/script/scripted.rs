//! A scripted server for unit tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, Pipeline, RedisFuture, Value, parse_redis_value};

/// A server with a script of expected commands and their replies. A clone is the same server.
#[derive(Clone, Default)]
pub(crate) struct Scripted(Arc<Mutex<VecDeque<Exchange>>>);

/// The parts of what is sent, and the replies.
type Exchange = (Vec<&'static [u8]>, Vec<&'static str>);

impl Scripted {
    /// Expects one command or pipeline with these parts in this order, and answers with these replies.
    pub(crate) fn answers(self, sent: &[&'static str], replies: &[&'static str]) -> Self {
        let sent = sent.iter().map(|part| part.as_bytes()).collect();
        let exchange = (sent, replies.to_vec());
        self.0.lock().expect("no panic").push_back(exchange);
        self
    }

    pub(crate) fn assert_all_sent(&self) {
        let rest = self.0.lock().expect("no panic");
        assert!(rest.is_empty(), "not sent: {rest:?}");
    }

    fn next(&self, sent: &[u8]) -> Vec<Value> {
        let next = self.0.lock().expect("no panic").pop_front();
        let (parts, replies) = next.expect("no more commands");
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
