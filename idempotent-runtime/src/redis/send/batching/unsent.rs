//! The answers to a batch that was not sent, or whose request failed.

use ::redis::{RedisError, RedisResult};

use super::request::Request;
use crate::batch::Answer;

/// The next batch contains the operations again.
pub(crate) fn again<T>(batch: Vec<Request>) -> Vec<Answer<Request, RedisResult<T>>> {
    batch.into_iter().map(Answer::Again).collect()
}

/// Each of the operations has this error.
pub(crate) fn fail<T>(
    operations: usize,
    error: &RedisError,
) -> Vec<Answer<Request, RedisResult<T>>> {
    let failed = |_| Answer::Reply(Err(error.clone()));
    (0..operations).map(failed).collect()
}
