//! What the store of DynamoDB uses: the row of a call in its caller's transaction, and how durations are read.

pub use crate::policy::duration::read_or_zero as read_duration;
pub use crate::store::rows::{Row, RowClaim, Rows};
