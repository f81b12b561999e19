//! Waiting for what servers do by themselves.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Asks until there is an answer that is not `None`.
///
/// The error of the last answer, or `what` did not happen, is told after half a minute.
pub(super) fn wait_for<T>(
    what: &str,
    mut look: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match look() {
            Ok(Some(found)) => return Ok(found),
            Err(error) if Instant::now() > deadline => return Err(error),
            Ok(None) if Instant::now() > deadline => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            _ => sleep(Duration::from_millis(10)),
        }
    }
}
