//! What the end of a call sends.

use bytes::Bytes;
use tokio::time::Instant;

/// What the end of a call sends.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// The claim becomes this done record, for `ttl`.
    Complete(Bytes),
    /// The claim goes away.
    Remove,
    /// The claim goes away if it was put at all; its body never ran.
    Withdraw,
    /// The claim stays until then, whatever its last renewal said.
    Hold(Instant),
}
