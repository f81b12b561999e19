//! What the store of etcd uses: batches, and how the texts of servers are cut.

pub use super::redis::server_error;
pub use crate::batch::{Answer, BatchTypes, Batches, Limits, Operation, Route, Transport};
