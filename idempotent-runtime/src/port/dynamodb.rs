//! What the store of DynamoDB uses, for the row of a call in its caller's transaction.

pub use crate::store::rows::{Row, RowClaim, Rows};
