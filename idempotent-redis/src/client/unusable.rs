//! Answers after which a connection cannot be used any more.

use ::redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// Whether the connection cannot be used any more: it is broken, or its server is a replica, or the login was lost.
pub(crate) fn is_unusable(error: &RedisError) -> bool {
    let replica = matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    );
    let broken = error.is_unrecoverable_error() || error.is_io_error();
    broken || replica || error.code() == Some("NOAUTH")
}

/// Whether the connection cannot be used any more after this reply.
pub(crate) fn makes_unusable(reply: &Value) -> bool {
    match reply {
        Value::ServerError(error) => is_unusable(&error.clone().into()),
        // A script that does several removals has an error for each.
        Value::Array(replies) => replies.iter().any(makes_unusable),
        _ => false,
    }
}

/// Whether the connection cannot be used any more after these replies.
pub(crate) fn have_unusable(replies: &[Value]) -> bool {
    replies.iter().any(makes_unusable)
}
