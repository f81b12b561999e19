//! The answers to a batch that was not sent, or whose request failed.

use ::redis::RedisError;
use idempotent_runtime::port::redis::Answer;

use crate::send::op::{Reply, SendError};
use crate::send::request::Request;

/// The next batch contains the operations again.
pub(crate) fn again(batch: Vec<Request>) -> Vec<Answer<Request, Reply>> {
    batch.into_iter().map(Answer::Again).collect()
}

/// Each of the operations has this error.
pub(crate) fn fail(operations: usize, error: &RedisError) -> Vec<Answer<Request, Reply>> {
    let failed = |_| Answer::Reply(Err(SendError::Redis(error.clone())));
    (0..operations).map(failed).collect()
}
