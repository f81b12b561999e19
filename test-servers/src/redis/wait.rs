//! Waits for changes that servers make by themselves.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Calls `look` until it returns something.
///
/// After two minutes returns its last error, or an error that names `what`.
pub(super) fn wait_for<T>(
    what: &str,
    mut look: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        match look() {
            Ok(Some(found)) => return Ok(found),
            Err(error) if Instant::now() > deadline => return Err(error),
            Ok(None) if Instant::now() > deadline => {
                let message = format!("waited two minutes for {what}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            _ => sleep(Duration::from_millis(10)),
        }
    }
}
