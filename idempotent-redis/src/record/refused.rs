//! A command that a server has by its version, and refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::RedisError;

use crate::client::failure::is_forbidden;

/// Whether the server refuses a command of its version, so that a script is used in its place. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<AtomicBool>);

impl Refused {
    /// Whether the server refuses the command.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes the error of the command, unless it may succeed another time. The server lost the command, for example by a fail-over to
    /// an older server, or does not let this user run it.
    pub(crate) fn note(&self, command: &str, error: &RedisError) {
        if is_forbidden(error) {
            self.0.store(true, Ordering::Relaxed);
            tracing::debug!(target: "idempotence", %error, "`{command}` cannot be used: a script does the same");
        }
    }
}
