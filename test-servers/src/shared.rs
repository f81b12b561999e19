//! The server that all tests of this process share.

use std::io;
use std::sync::{Mutex, PoisonError};

/// The shared server, once it was started.
#[derive(Debug)]
pub(crate) struct Shared<S: 'static>(Mutex<Option<&'static S>>);

impl<S> Shared<S> {
    /// No server yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the shared server. The first caller starts it; after a failed start the next caller tries again.
    pub(crate) fn get_or_start(
        &self,
        start: impl FnOnce() -> io::Result<S>,
    ) -> io::Result<&'static S> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = *shared {
            return Ok(server);
        }
        let server: &'static S = Box::leak(Box::new(start()?));
        *shared = Some(server);
        Ok(server)
    }
}
